"""The values that cross the boundaries between the stages. Immutable; NamedTuples where there is one a row."""

import json
from collections.abc import Mapping
from typing import Literal, NamedTuple

from walrelay.lsn import LSN, ZERO


class RecordPosition(NamedTuple):
    """Which record: where its transaction's commit record starts, and its ordinal there, in the order of commit.
    `ordinal` None: all records of the transaction.
    """

    commit_lsn: LSN
    ordinal: int | None

    def __str__(self) -> str:
        """`16/B374D848:0`, as in the header `position`; the part before the colon is PostgreSQL's pg_lsn text."""
        return str(self.commit_lsn) if self.ordinal is None else f"{self.commit_lsn}:{self.ordinal}"

    @staticmethod
    def parse(text: str) -> "RecordPosition":
        """ValueError for what is no position."""
        lsn, colon, ordinal = text.partition(":")
        return RecordPosition(LSN.parse(lsn), int(ordinal) if colon else None)

    @staticmethod
    def of_header(text: str) -> tuple[LSN, int] | None:
        """For the position of a message that was read back; None if the text is no position."""
        try:
            lsn, ordinal = RecordPosition.parse(text)
        except ValueError:
            return None
        return lsn, ordinal or 0


class _NoColumns(dict[str, str | None]):
    """Empty; a record that has it can be hashed."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


NO_COLUMNS: Mapping[str, str | None] = _NoColumns()


class OutboxRecord(NamedTuple):
    """One committed outbox row (or transactional logical message), as decode hands it to route.

    `(commit_lsn, ordinal)` identifies it: `commit_lsn` is where the transaction's commit record starts
    (pgoutput's Begin.final_lsn), `ordinal` counts the outbox records inside the transaction from 0. A row's own
    LSN would not do: the rows of one COPY share it (guarantees A2).

    Text columns are `str` decoded with `surrogateescape`, so that whatever a SQL_ASCII database holds comes
    out as the same bytes. `payload` is the column's text (or, for bytea, the bytes), never reparsed. `columns` has
    those without a role that a rule names, by name.
    """

    commit_lsn: LSN
    ordinal: int
    committed_at: int  # microseconds since 1970-01-01 UTC, the server's clock
    id: str
    aggregate_type: str | None
    aggregate_id: str | None
    type: str | None
    payload: bytes | None
    headers: bytes | None  # a JSON object's text
    topic: str | None
    tenant_id: str | None
    created_at: str | None
    columns: Mapping[str, str | None] = NO_COLUMNS

    @property
    def position(self) -> str:
        return str(RecordPosition(self.commit_lsn, self.ordinal))


class Committed(NamedTuple):
    """The end of a transaction that held outbox records: `end_lsn` is the position to confirm, exactly."""

    end_lsn: LSN


class Idle(NamedTuple):
    """The server got to `lsn` and nothing in between concerns the outbox.

    A keepalive outside a transaction and a transaction without an outbox record are the same thing: an empty
    transaction. So idle progress takes the path of real work and cannot overtake it.
    """

    lsn: LSN


class Skipped(NamedTuple):
    """An event at `lsn` that is skipped because the settings, or the operator, say so; it is always reported.
    `ordinal`: of a row that could not be read, with `lsn` as its commit LSN.
    """

    lsn: LSN
    why: str
    ordinal: int | None = None


class Undecoded(NamedTuple):
    """A transactional logical message with our prefix that is no outbox record: what it holds, why, and what to do.

    It has its ordinal among the records of its transaction. The policy for refusals decides what becomes of it.
    """

    commit_lsn: LSN
    ordinal: int
    committed_at: int  # microseconds since 1970-01-01 UTC, the server's clock
    prefix: str
    content: bytes  # as the server sends it
    reason: str
    hint: str

    @property
    def position(self) -> str:
        return str(RecordPosition(self.commit_lsn, self.ordinal))


AnyRecord = OutboxRecord | Undecoded
"""What has an ordinal: both count as records of a transaction."""

Event = AnyRecord | Committed | Idle | Skipped


REPLAYED = ("replayed", b"true")
"""The header of a message that comes late, or again: its position says nothing about its place in the topic."""


EVENT_ID = "event_id"
"""The header of a record's id in an envelope whose consumers give `id` another meaning."""


ANY_PARTITION = -1
"""The partition of a message whose sink chooses it."""


class Message(NamedTuple):
    """What a sink publishes. Header values and key are bytes; `timestamp_ms` is Unix time in milliseconds. `partition`:
    ANY_PARTITION, or the one it must go to; only a sink whose plug-in declares `partitions` is offered another.
    `topic`: its address, until one of several sinks takes it.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int
    partition: int = ANY_PARTITION


def address(sink: str, topic: str) -> str:
    """Where a message goes: `SINK:TOPIC`, or the topic alone where a relay has one sink, without a name."""
    return f"{sink}:{topic}" if sink else topic


def sink_and_topic(address: str) -> tuple[str, str]:
    """The parts of an address that names a sink; names of sinks have no colon."""
    sink, _, topic = address.partition(":")
    return sink, topic


class Receipt(NamedTuple):
    """`messages` of the transaction `ticket` became durable: how many."""

    ticket: int
    messages: int


class Offered(Message):
    """A message with the record it was made from, as its `number`th, for the dead letter if it is refused."""

    record: OutboxRecord
    number: int = 0


class Refusal(NamedTuple):
    """A message that the sink cannot make durable: why, and what an operator can do.

    `message` is the very object that was offered, if the sink has it. `scope` says what is refused: this "message",
    everything for the place that its "topic" leads to, or everything this "sink" offers. `ends`: the sink accepts
    nothing more after it.
    """

    ticket: int
    message: Message
    reason: str
    hint: str
    error: str = "refused"  # a name for this kind of refusal, to filter dead letters by
    scope: str = "message"
    ends: bool = True


class System(NamedTuple):
    """Which history of WAL a position belongs to: a promoted standby begins a new timeline of the same system.

    `began`: where the timeline branched off the previous one, since two standbys may give theirs one number; None for
    the first timeline, and where it is not known.
    """

    identifier: str
    timeline: int
    began: LSN | None = None


class Counting(NamedTuple):
    """What counts as a record, and so decides which ordinals the records of a transaction have. WAL does not change,
    and the server decodes it with the catalog of that time, so only these settings matter.
    """

    plugin: str  # with wal2json's format
    publication: str | None
    table: str  # quoted where it must be
    prefix: str | None  # of logical messages


class LatestCommit(NamedTuple):
    """Of the transactions that a relay has read, the one that was committed last, by the server's clock, in
    microseconds since 1970. 0: none was read since the server got to `commit_lsn`.
    """

    commit_lsn: LSN
    committed_at: int


class RelayPosition(NamedTuple):
    """How far a relay got: every message of what was committed before `lsn` is durable at the broker.

    In the one transaction whose commit record starts at `commit_lsn`, the messages of the records before `ordinal` are
    durable as well; ZERO and 0 if none is half published. Every transaction with an xid8 below `xmin` had ended before
    the server got to `lsn`; 0 if that is not known. `counted`: how those records were counted; None: an earlier version
    counted them, or there are none. `latest` shows whether the server was set back since; None: an earlier version kept
    the position, or it is in a table, which is set back with the server.
    """

    system: System
    slot: str
    lsn: LSN
    commit_lsn: LSN = ZERO
    ordinal: int = 0
    xmin: int = 0
    counted: Counting | None = None
    latest: LatestCommit | None = None

    def as_json(self) -> bytes:
        """LSNs as PostgreSQL writes them."""
        system = {"identifier": self.system.identifier, "timeline": self.system.timeline}
        if self.system.began is not None:
            system["began"] = str(self.system.began)
        members = {**self._asdict(), "system": system, "lsn": str(self.lsn)}
        counted = {"counted": self.counted._asdict()} if self.counted else {}
        latest = {"latest": [str(self.latest.commit_lsn), self.latest.committed_at]} if self.latest else {}
        del members["counted"], members["latest"]
        return json.dumps({**members, "commit_lsn": str(self.commit_lsn), **counted, **latest}).encode()

    @staticmethod
    def of_json(text: bytes) -> "RelayPosition":
        """The position that `as_json` wrote; ValueError, TypeError or LookupError for anything else."""
        members = json.loads(text)
        system, began = members["system"], members["system"].get("began")
        system = System(str(system["identifier"]), int(system["timeline"]), began and LSN.parse(began))
        lsns = LSN.parse(members["lsn"]), LSN.parse(members["commit_lsn"])
        counts = (int(members["ordinal"]), int(members["xmin"]))
        counted, (lsn, at) = _counting(members.get("counted")), members.get("latest") or ("", 0)
        latest = LatestCommit(LSN.parse(lsn), int(at)) if lsn else None
        return RelayPosition(system, str(members["slot"]), *lsns, *counts, counted, latest)


def _counting(members: dict[str, str | None] | None) -> Counting | None:
    return None if members is None else Counting(**{name: members[name] for name in Counting._fields})  # type: ignore[arg-type]


class Finding(NamedTuple):
    """One answer of the doctor. `fix` is a command or statement to paste; empty where all is well."""

    subject: str
    verdict: Literal["ok", "warning", "problem"]  # a problem blocks a start
    detail: str
    fix: str = ""
