"""The billing consumer: handles each event of the orders once, and keeps what customers owe. Run: python billing.py"""

import logging
import os
import time
from contextlib import closing
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaException, Message
from events import InvoiceIssued, OrderCancelled, OrderPlaced

from walrelay.inbox import Identity, Inbox, identify
from walrelay.outbox import Outbox, UnknownEvent, consuming, registry

inbox, outbox = Inbox(), Outbox()


OPTIONS = {
    "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
    "group.id": "billing",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "session.timeout.ms": 6000,  # how long a consumer that was killed keeps its partitions from the next
    "allow.auto.create.topics": True,
}


def main() -> None:
    """Reads on for ever. After any error everything is made again, and Kafka gives again what was not committed there:
    the inbox knows it.
    """
    while True:
        try:
            with (
                psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection,
                closing(Consumer(OPTIONS)) as consumer,
            ):
                read_on(connection, consumer)
        except (psycopg.OperationalError, KafkaException) as error:  # one of them is away, or its disk is full
            logging.warning("waiting: %s", error)
            time.sleep(1)


def read_on(connection: psycopg.Connection[Any], consumer: Consumer) -> None:
    consumer.subscribe(["outbox.event.order"])
    while True:
        message = consumer.poll(1)
        if message is None:
            continue
        if (error := message.error()) is not None:
            if error.retriable() or error.name() == "UNKNOWN_TOPIC_OR_PART":  # until the first order comes
                continue
            raise KafkaException(error)
        with connection.transaction():
            receive(connection, message)
        consumer.commit(message, asynchronous=False)


def receive(connection: psycopg.Connection[Any], message: Message) -> None:
    """One message in one transaction: the receipt, the projection and what follows from it."""
    identity = identify(message)
    headers = {name: value.decode() for name, value in message.headers() or [] if value is not None}
    with (
        inbox.receive(connection, consumer="billing", message_id=identity) as first,
        consuming(identity.id, headers),
    ):
        if not first:
            return
        try:
            event = registry.read(headers["type"], message.value() or b"", headers.get("event-version"))
        except UnknownEvent as unknown:  # of another team, or of a later version: no reason to stop for ever
            logging.warning("%s is left out: %s", identity.id, unknown)
            return
        handle(connection, identity, event)


def handle(connection: psycopg.Connection[Any], identity: Identity, event: object) -> None:
    match event:
        case OrderPlaced(order_id, customer, total):
            connection.execute(
                "INSERT INTO invoices (order_id, customer, amount) VALUES (%s, %s, %s)", [order_id, customer, total]
            )
            connection.execute(
                "INSERT INTO accounts AS a (customer, owes) VALUES (%s, %s)"
                " ON CONFLICT (customer) DO UPDATE SET owes = a.owes + excluded.owes",
                [customer, total],
            )
            outbox.emit(connection, InvoiceIssued(order_id, customer, total))
        case OrderCancelled(order_id):
            connection.execute(
                "WITH void AS (UPDATE invoices SET void = true WHERE order_id = %s AND NOT void RETURNING *)"
                " UPDATE accounts SET owes = owes - amount FROM void WHERE accounts.customer = void.customer",
                [order_id],
            )


if __name__ == "__main__":
    main()
