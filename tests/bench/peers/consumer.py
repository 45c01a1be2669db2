"""The consumer of every measurement: a process of its own that notes which event arrived when, and the handle to it.

    with consuming("127.0.0.1:9092", "topic", Path("arrivals")) as arrivals:
        wait_until(lambda: arrivals.count() >= 100, 60, "100 events")
        for event in arrivals.events(): ...

It reads every partition from the beginning, without a group, and what a transaction committed only. A line a message
goes to the file, so that a look at how far it is costs it nothing:

    number <tab> time of receipt <tab> partition <tab> offset <tab> key
"""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

_NUMBER = re.compile(rb'number\\*"\s*:\s*(\d+)')
_NO_EVENT = -1

_AT_A_TIME = 1000

_SETTINGS: dict[str, Any] = {
    "group.id": "bench",  # asked for, and without a meaning: partitions are assigned, nothing is committed
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "log_level": 0,
    "fetch.wait.max.ms": 100,  # the broker answers as soon as it has a byte
    "fetch.queue.backoff.ms": 10,  # a full queue must not stop fetching for the default second
    "queued.max.messages.kbytes": 262_144,
}


class Event(NamedTuple):
    """One message as it arrived. An event that arrived twice is there twice."""

    number: int  # -1: the message has none, it is no event of ours
    at: float  # Unix time of receipt, seconds
    partition: int
    offset: int
    key: str  # as text, what is not UTF-8 escaped; empty: none


class Arrivals:
    """What has arrived so far, in the order of receipt."""

    def __init__(self, file: Path, process: "subprocess.Popen[str]") -> None:
        self._file = file
        self._process = process
        self._read = 0
        self._numbers: set[bytes] = set()

    def count(self) -> int:
        """How many different events arrived; cheap enough to be asked often."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the consumer ended with exit code {self._process.returncode}")
        with self._file.open("rb") as file:
            file.seek(self._read)
            whole, _, _ = file.read().rpartition(b"\n")  # the last line may be half written
        if whole:
            self._read += len(whole) + 1
            self._numbers.update(line.partition(b"\t")[0] for line in whole.split(b"\n"))
            self._numbers.discard(b"%d" % _NO_EVENT)
        return len(self._numbers)

    def events(self) -> list[Event]:
        """All that carry a number."""
        found = _parse(self._file)
        return [event for event in found if event.number != _NO_EVENT]

    def foreign(self) -> int:
        """How many messages carry no number: heartbeats, tombstones, markers."""
        return sum(event.number == _NO_EVENT for event in _parse(self._file))


@contextmanager
def consuming(bootstrap_servers: str, topic: str, file: Path) -> Iterator[Arrivals]:
    """Consumes an existing topic into `file`, from its beginning, until the end of the block."""
    file.write_bytes(b"")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.peers.consumer", bootstrap_servers, topic, str(file)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the consumer of {topic} did not start")
        yield Arrivals(file, process)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def number_of(value: bytes | None) -> int:
    """The number in an event's payload, however often a quote in it was escaped on the way; -1 where there is none."""
    found = _NUMBER.search(value or b"")
    return int(found[1]) if found else _NO_EVENT


def _parse(file: Path) -> list[Event]:
    whole, _, _ = file.read_bytes().decode().rpartition("\n")
    return [_event(line) for line in whole.split("\n")] if whole else []


def _event(line: str) -> Event:
    number, at, partition, offset, key = line.split("\t", 4)
    return Event(int(number), float(at), int(partition), int(offset), key)


def _line(message: Message, at: float) -> str:
    key = message.key() or b""
    text = key.decode(errors="backslashreplace") if isinstance(key, bytes) else key
    text = text.replace("\n", "\\n")
    return f"{_number(message)}\t{at:.6f}\t{message.partition()}\t{message.offset()}\t{text}\n"


def _number(message: Message) -> int:
    value = message.value()
    return number_of(value.encode() if isinstance(value, str) else value)


def main(bootstrap_servers: str, topic: str, file: str) -> None:
    """Until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    consumer = Consumer({**_SETTINGS, "bootstrap.servers": bootstrap_servers})
    partitions = consumer.list_topics(topic, timeout=15).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    with Path(file).open("a", encoding="utf-8") as out:
        while True:
            for messages in _waiting(consumer):
                at = time()
                out.write("".join(_line(message, at) for message in messages if _is_whole(message)))
                out.flush()


def _waiting(consumer: Consumer) -> Iterator[list[Message]]:
    """The next message as soon as it is there, then what else is there: consume() alone waits until it has its fill."""
    first = consumer.poll(1.0)
    if first is not None:
        yield [first]
        yield consumer.consume(_AT_A_TIME, timeout=0)


def _is_whole(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        return False
    raise KafkaException(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
