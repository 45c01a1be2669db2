"""The two ends: the application, which changes orders and writes their events in the same transactions, and an ordinary
consumer of the broker, of which is noted when each message came."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, NamedTuple, Self
from uuid import uuid4

import psycopg

from walrelay.lab.brokers.contract import LabConsumer
from walrelay.lab.demo.events import Change, Delivered, Failed, Inserted, News, RolledBack, WriterDone, changes

COUNTERS = "ABCD"  # of the shop, each with a connection of its own: transactions overlap, as they do in life

_ORDER = b"""
INSERT INTO walrelay_demo.orders (id, customer, total, status)
VALUES (%s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE SET status = excluded.status
"""


class WritingTask(NamedTuple):
    """What the writers do together: `rate` in transactions a second, or 0: as fast as they can."""

    dsn: str
    emit: str  # the statement that writes an event
    events: int
    rate: float


@contextmanager
def writing(work: WritingTask, news: News) -> Iterator[None]:
    """A thread for each counter. The news hear of each transaction, and when a writer is done."""
    leaving = Event()
    threads = [
        Thread(name=f"writer {counter}", daemon=True, target=_write, args=(counter, share, leaving, news))
        for counter, share in _shares(work)
    ]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        leaving.set()
        for thread in threads:
            if thread.is_alive():
                thread.join(5)


def _shares(work: WritingTask) -> Iterator[tuple[str, WritingTask]]:
    for number, counter in enumerate(COUNTERS):
        events = len(range(number, work.events, len(COUNTERS)))
        yield counter, work._replace(events=events, rate=work.rate / len(COUNTERS))


def _write(counter: str, work: WritingTask, leaving: Event, news: News) -> None:
    try:
        with psycopg.connect(work.dsn, autocommit=True, application_name="walrelay demo") as connection:
            due = time.monotonic()
            for change in changes(counter, work.events):
                if work.rate:
                    due += 1 / work.rate
                if leaving.wait(max(0.0, due - time.monotonic())):
                    return
                _carry_out(change, connection, work.emit, news)
        news.put(WriterDone())
    except psycopg.Error as error:
        news.put(Failed("the writer", error))


def _carry_out(change: Change, connection: psycopg.Connection[tuple[Any, ...]], emit: str, news: News) -> None:
    order, event = change.order, str(uuid4())
    parameters = {"id": event, "order": order.id, "type": change.type, "payload": change.payload}
    # The pipeline sends the statements together: one round trip a transaction, to a remote server too.
    with connection.pipeline(), connection.transaction() as transaction:
        connection.execute(_ORDER, (order.id, order.customer, order.total, change.status))
        connection.execute(emit.encode(), parameters)
        if change.rolled_back:
            raise psycopg.Rollback(transaction)
    at_ns = time.time_ns()
    news.put(RolledBack(event) if change.rolled_back else Inserted(event, change, at_ns))


TOPIC = "walrelay.demo.order"  # as the settings' route.topic makes it of the aggregate type


class ArrivalReader(Thread):
    """Tells in the news of each message that the consumer gets, which it closes in the end."""

    def __init__(self, consumer: LabConsumer, news: News) -> None:
        super().__init__(name="reader", daemon=True)
        self._consumer, self._news = consumer, news
        self._leaving = Event()

    def run(self) -> None:
        receive, now_ns, put = self._consumer.receive, time.time_ns, self._news.put
        try:
            while not self._leaving.is_set():
                found = receive()
                at_ns = now_ns()
                for message in found:
                    put(Delivered(message.id, message.key, json.loads(message.value)["step"], at_ns))
        except Exception as error:  # of any client library
            self._news.put(Failed("the consumer", error))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self.join(5)
        self._consumer.close()
