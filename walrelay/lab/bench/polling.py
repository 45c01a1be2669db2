"""The worker that walrelay is compared with: it polls the outbox, and does it as well as that can be done.

    python -m walrelay.lab.bench.polling walrelay_bench.outbox walrelay.bench.order --every 0.1

It publishes the oldest rows, waits until the broker has acknowledged all of them, and marks them, in one transaction:
what fails before COMMIT is published again. SKIP LOCKED lets a second worker skip the rows of the first, so that
none is published twice; it may overtake the first, though. And `number` is given out before COMMIT: of two writers the
later number may be committed, seen and published first. One writer and one worker keep the order.
"""

import argparse
import os
import select
import signal
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

import psycopg
from confluent_kafka import KafkaError, KafkaException, Producer

from walrelay.lab.bench.child import CHANNEL, Clock, run, tell


class Every:
    """At fixed times: what a poll takes does not lengthen the interval."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next = monotonic()

    def after(self, published: int) -> float:
        now = monotonic()
        missed = max(0.0, now - self._next) // self._interval
        self._next += (missed + 1) * self._interval
        return max(0.0, self._next - now)


class BackOff:
    """A pause of one second; after three empty polls it doubles with each further one, up to a minute."""

    LONGEST = 60.0

    def __init__(self) -> None:
        self._empty = 0

    def after(self, published: int) -> float:
        self._empty = 0 if published else self._empty + 1
        return min(self.LONGEST, 2.0 ** max(0, self._empty - 2))


BATCH = 100

_PATIENCE = 30.0  # seconds for the broker to acknowledge a batch

_OLDEST = """
SELECT id::text, aggregate_id, type, payload::text FROM {table}
WHERE published_at IS NULL ORDER BY number LIMIT {batch} FOR UPDATE SKIP LOCKED
"""
_MARK = "UPDATE {table} SET published_at = clock_timestamp() WHERE id = ANY(%s::uuid[])"

# The table is emptied before each measurement, and plans made for an empty table would scan all of it from then on. A
# table with a history has statistics, and its plans use the indexes.
_PLANS = "SET enable_seqscan = off"

PRODUCER: dict[str, Any] = {
    "client.id": "polling",
    "enable.idempotence": True,  # and with it acks=all
    "partitioner": "murmur2_random",
    "log_level": 0,
}

Row = tuple[str, str, str, str]


def publish(producer: Producer, topic: str, rows: Sequence[Row]) -> None:
    """Returns when the broker has all of them. KafkaException: it may not have them."""
    failed = list[KafkaError]()

    def reported(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    for event, key, kind, payload in rows:
        headers: Any = [("id", event.encode()), ("type", kind.encode())]
        producer.produce(topic, payload.encode(), key.encode(), headers=headers, on_delivery=reported)
    waiting = producer.flush(_PATIENCE)  # sends at once, whatever linger.ms says
    if failed or waiting:
        raise KafkaException(failed[0] if failed else KafkaError(KafkaError._TIMED_OUT))


class Poller:
    """`poll` publishes what is due; `notified` tells whether rows were committed since it was last asked."""

    def __init__(self, connection: psycopg.Connection[Any], producer: Producer, table: str, topic: str) -> None:
        """The connection is in autocommit mode, so that nothing is open between two polls."""
        self._connection, self._producer, self._topic = connection, producer, topic
        self._oldest = _OLDEST.format(table=table, batch=BATCH).encode()
        self._mark = _MARK.format(table=table).encode()
        connection.execute(_PLANS)

    def poll(self) -> int:
        """Publishes the oldest rows, up to BATCH, and returns how many. KafkaException: none of them is marked."""
        with self._connection.transaction():
            rows: list[Row] = self._connection.execute(self._oldest).fetchall()
            if rows:
                publish(self._producer, self._topic, rows)
                self._connection.execute(self._mark, ([row[0] for row in rows],))
        return len(rows)

    def notified(self) -> bool:
        return bool(list(self._connection.notifies(timeout=0)))


class Sleeper:
    """Sleeps until it is time, until a file becomes readable, or until SIGTERM."""

    def __init__(self) -> None:
        self.leaving = False
        self._woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking)
        signal.signal(signal.SIGTERM, self._leave)

    def sleep(self, seconds: float, *files: Any) -> None:
        select.select([self._woken, *files], [], [], seconds)

    def _leave(self, *_: object) -> None:
        self.leaving = True


def work(poll: Callable[[], int], pause: Callable[[int], None], leaving: Callable[[], bool]) -> None:
    """Polls for ever, after a full batch at once again: a backlog is no reason to sleep."""
    while not leaving():
        published = poll()
        if published < BATCH:
            pause(published)


def drain(poller: Poller) -> None:
    """Without pauses, from the first poll until one finds nothing; prints one JSON object."""
    clock, events = Clock(), 0
    while published := poller.poll():
        events += published
    clock.stop()
    tell(events, clock)


def main() -> None:
    arguments = _arguments()
    producer = Producer({**PRODUCER, "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]})
    sleeper = Sleeper()
    name = "walrelay bench polling"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, application_name=name) as connection:
        poller = Poller(connection, producer, arguments.table, arguments.topic)
        if arguments.drain:
            drain(poller)
            return
        if arguments.listen:
            connection.execute(f"LISTEN {CHANNEL}")
        seconds = BackOff() if arguments.back_off else Every(arguments.every)

        def pause(published: int) -> None:
            if not arguments.listen:
                sleeper.sleep(seconds.after(published))
            elif not poller.notified():  # while it worked
                sleeper.sleep(arguments.every, connection)

        work(poller.poll, pause, lambda: sleeper.leaving)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m walrelay.lab.bench.polling")
    parser.add_argument("table")
    parser.add_argument("topic")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two polls")
    parser.add_argument("--back-off", action="store_true", help="1 s, doubling to 60 s after three empty polls")
    parser.add_argument("--listen", action="store_true", help="poll also when notified, between the intervals")
    parser.add_argument("--drain", action="store_true", help="end when there is nothing left, and say how long it took")
    return parser.parse_args()


if __name__ == "__main__":
    run(main)
