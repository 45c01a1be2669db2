"""What can be asked of `walrelay bench throughput`. Imports nothing that must be installed for it."""

from collections.abc import Sequence
from typing import NamedTuple

READERS = {
    "limit": "pg_recvlogical -f /dev/null",
    "null": "walrelay into a sink that forgets",
    "mock": "walrelay into librdkafka's mock cluster, in a process of its own",
    "kafka": "walrelay into real Kafka, acks=all",
    "exactly-once": "as kafka, in Kafka transactions with the position",
    "wal2json": "as mock, with wal2json instead of pgoutput",
    "polling": "a worker that polls and updates the table, into the mock cluster",
}

EVENTS, QUICK_EVENTS = 500_000, 200_000
POLLED_EVENTS = 50_000  # at most: a polling worker needs minutes for what the others do in seconds
ROW_BYTES, LEAST_ROW_BYTES = 235, 160
ROWS_PER_TRANSACTION = 10
ROUNDS = 3


class Wish(NamedTuple):
    """The backlog, who reads it, and how often. `rows_per_transaction` None: all in one."""

    events: int = EVENTS
    row_bytes: int = ROW_BYTES
    rows_per_transaction: int | None = ROWS_PER_TRANSACTION
    rounds: int = ROUNDS
    names: Sequence[str] = tuple(READERS)
    binary: bool = True
    tcp: bool = True  # to a server of its own
    quick: bool = False
    command: str = ""  # by which it was asked for

    def expected(self, name: str) -> int:
        """How many events that reader has to deliver."""
        return min(self.events, POLLED_EVENTS) if name == "polling" else self.events


def rows_per_transaction(text: str) -> int | None:
    """A number from 1 on, or `all`, which is None. ValueError for anything else."""
    if text == "all":
        return None
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{text!r} is neither a number from 1 on nor 'all'")
    return int(text)


def names(text: str) -> Sequence[str]:
    """Names of readers, with commas between them, in the order of READERS. ValueError for an unknown one."""
    asked = {name.strip() for name in text.split(",")}
    if unknown := sorted(asked - READERS.keys()):
        raise ValueError(f"{', '.join(map(repr, unknown))}: not among {', '.join(READERS)}")
    return [name for name in READERS if name in asked]


def order(names: Sequence[str], round_: int) -> Sequence[str]:
    """Who reads when: everybody is first once, so that no one always meets the warmest cache."""
    first = round_ % len(names)
    return [*names[first:], *names[:first]]
