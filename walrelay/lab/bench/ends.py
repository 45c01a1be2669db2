"""The two ends of the comparison, a process each: the writer and the consumer.

    python -m walrelay.lab.bench.ends writer assignments journal
    python -m walrelay.lab.bench.ends consumer topic journal options

The writer, the application, commits a business row and an outbox row in one transaction, at set times. It reads its
assignments from a FIFO, a JSON array each, and writes to the journal when COMMIT returned: [segment, number, ns]. If
the assignment says so, the writer also produces the event itself, at once after COMMIT.

The consumer notes when each message came. It says `ready` on standard output, then appends to the journal: [segment,
number, partition, offset, ns]. `options` are librdkafka's, as a JSON object."""

import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from walrelay.lab.bench import child
from walrelay.lab.bench.child import BUSINESS, TABLE, TOPIC
from walrelay.lab.bench.polling import PRODUCER, publish
from walrelay.lab.servers.kafka import QUIET, topic_ends


def schedule(mode: str, rate: float, seconds: float, seed: int) -> Sequence[float]:
    """Seconds from the beginning to each commit. Every mode has the same number of them; a seed gives the same ones."""
    return MODES[mode](rate, max(1, round(rate * seconds)), random.Random(seed))


def _steady(rate: float, count: int, chance: random.Random) -> list[float]:
    """One in each slot, at a random moment of it: in time with a poller's interval, every event would wait as long."""
    return [(number + chance.random()) / rate for number in range(count)]


def _burst(rate: float, count: int, chance: random.Random) -> list[float]:
    """Once a second all of that second's at the same time: one after the other, as fast as the writer can."""
    size = max(1, round(rate))
    return [number // size * (size / rate) for number in range(count)]


def _poisson(rate: float, count: int, chance: random.Random) -> list[float]:
    """Independent of each other, as visitors are."""
    return list(accumulate(chance.expovariate(rate) for _ in range(count)))


MODES: Mapping[str, Callable[[float, int, random.Random], list[float]]] = {
    "steady": _steady,
    "burst": _burst,
    "poisson": _poisson,
}


_BUSINESS = f"INSERT INTO {BUSINESS} (customer, total) VALUES (%s, %s)".encode()
_OUTBOX = f"INSERT INTO {TABLE} (aggregate_type, aggregate_id, type, payload) VALUES ('order', %s, %s, %s)".encode()

_AGGREGATES, _TYPE = 100, "OrderPlaced"
_WARM_UP = 20
_SOON = 0.05  # seconds from the assignment to the first commit
_TIMER = 200_000  # ns by which a sleep may be too long
_TEXT = "Two teapots and a desk lamp, to be delivered to the porter's lodge; please ring twice and do not leave it."


class Assignment(NamedTuple):
    """What to do in a segment; `first` is the number of the first event, and `seed` makes the same times each time."""

    segment: int
    first: int
    mode: str
    rate: float
    seconds: float
    seed: int
    direct: bool = False  # the writer produces too, and nothing waits for the outbox row

    @property
    def times(self) -> Sequence[float]:
        return schedule(self.mode, self.rate, self.seconds, self.seed)


def warm_up(segment: int) -> Assignment:
    """Events that nobody counts, some for every partition: with them everything is done that is done only once."""
    return Assignment(segment, -_WARM_UP, "burst", _WARM_UP, 1, 0)


def write(assignments: Path, journal: Path) -> None:
    """Until the FIFO's other end is closed."""
    gc.disable()  # nothing here makes cycles, and a collection would delay a commit
    with (
        psycopg.connect(os.environ["DATABASE_URL"], application_name="walrelay bench writer") as connection,
        journal.open("a", buffering=1) as committed,
        assignments.open() as lines,
    ):
        producer = Producer({**PRODUCER, "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]})
        for line in lines:
            assignment = Assignment(*json.loads(line))
            for number, at_ns in _commits(connection, assignment):
                if assignment.direct:
                    publish(producer, TOPIC, [(f"{number}", _key(number), _TYPE, _payload(assignment.segment, number))])
                committed.write(f"[{assignment.segment},{number},{at_ns}]\n")


def _commits(connection: psycopg.Connection[Any], assignment: Assignment) -> Iterator[tuple[int, int]]:
    """Yields an event's number, and when its COMMIT returned, or would have returned had it been begun in time.

    Commits that are due at the same time are one burst: each is due when the one before has returned, and what the
    burst's beginning was late counts for all of them.
    """
    begin, due, late = time.monotonic_ns() + int(_SOON * 1e9), -1, 0
    for number, seconds in enumerate(assignment.times, assignment.first):
        if begin + int(seconds * 1e9) != due:
            due = begin + int(seconds * 1e9)
            _sleep_until(due)
            late = time.monotonic_ns() - due
        emit(connection, assignment.segment, number)
        connection.commit()
        yield number, time.monotonic_ns() - late


def emit(connection: psycopg.Connection[Any], segment: int, number: int) -> None:
    """The statements of one event, without COMMIT."""
    connection.execute(_BUSINESS, ("Ada", number % 1000))
    connection.execute(_OUTBOX, (_key(number), _TYPE, _payload(segment, number)))


def _key(number: int) -> str:
    return f"order-{number % _AGGREGATES}"


def _payload(segment: int, number: int) -> str:
    return json.dumps({"segment": segment, "number": number, "text": _TEXT})


def _sleep_until(due: int) -> None:
    """Sleeps almost until then, because sleeping is not precise, and waits awake for the rest."""
    time.sleep(max(0, due - _TIMER - time.monotonic_ns()) / 1e9)
    while time.monotonic_ns() < due:
        pass


def receive(topic: str, journal: Path, options: str) -> None:
    """For ever."""
    gc.disable()  # nothing here makes cycles, and a collection would delay a message
    consumer = Consumer(
        {
            **QUIET,
            "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
            "group.id": "walrelay-bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # a message that the broker dropped must not go unnoticed
            **json.loads(options),
        }
    )
    # Assigned rather than subscribed: no group has to be formed, and none is left on the user's brokers.
    consumer.assign([TopicPartition(topic, *place) for place in topic_ends(consumer, topic).items()])
    with journal.open("a", buffering=1) as received:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            message = consumer.poll(1.0)
            at_ns = time.monotonic_ns()
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            event = json.loads(message.value() or b"")
            place = f"{message.partition()},{message.offset()}"
            received.write(f"[{event['segment']},{event['number']},{place},{at_ns}]\n")


if __name__ == "__main__":
    _, which, *arguments = sys.argv
    if which == "writer":
        child.run(write, *map(Path, arguments))
    else:
        child.run(receive, arguments[0], Path(arguments[1]), arguments[2])
