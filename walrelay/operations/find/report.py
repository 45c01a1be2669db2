"""What is known of each row, as values and as JSON."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from walrelay.dead_letter import shown

RowState = Literal["published", "waiting", "unknown", "dead_letter", "dropped"]

NOT_ASKED = "not asked"
DONE = "done"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RowCopy(NamedTuple):
    """A message of the row, as a consumer finds it. `topic`: without the sink's name."""

    sink: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    position: str
    replayed: bool


class RowDeadLetter(NamedTuple):
    """A dead letter of the row. `letter`: its number; None: it is in a topic only."""

    letter: int | None
    status: str
    error: str
    topic: str | None
    position: str


class RowDestination(NamedTuple):
    """What happened to one message of a row. `topic`: its address; empty: not known."""

    topic: str
    state: RowState
    why: str


class TracedRow(NamedTuple):
    """What happened to a row. Times in microseconds since 1970; None: not known. `in_table`: it is there now. `why`: of
    the state, for people. `behind`: how far the relay is, where it may not have confirmed the row. `letters`: how many
    dead letters it has. `due`: the topics of its messages by today's rules; `destinations`: what happened to each.
    `read_back`: `done`, `not asked`, or why it could not be done.
    """

    id: str
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    type: str | None = None
    written_at: int | None = None
    committed_at: int | None = None
    in_table: bool = True
    state: RowState = "unknown"
    why: str = ""
    behind: str = ""
    dead_letter: RowDeadLetter | None = None
    letters: int = 0
    due: tuple[str, ...] = ()
    destinations: tuple[RowDestination, ...] = ()
    copies: tuple[RowCopy, ...] = ()
    read_back: str = NOT_ASKED

    @property
    def at(self) -> int | None:
        """Its messages have this time, or a little later one."""
        return self.written_at if self.committed_at is None else self.committed_at

    def as_json(self) -> dict[str, Any]:
        """Without anything of its payload."""
        return {
            "id": shown(self.id),
            "aggregate_type": shown(self.aggregate_type),
            "aggregate_id": shown(self.aggregate_id),
            "type": shown(self.type),
            "written_at": iso(self.written_at),
            "committed_at": iso(self.committed_at),
            "in_table": self.in_table,
            "state": self.state,
            "why": self.why,
            "dead_letter": None if self.dead_letter is None else self.dead_letter._asdict(),
            "destinations": [each._asdict() for each in self.destinations],
            "copies": [_copy(each) for each in self.copies],
            "read_back": self.read_back,
        }


class FoundRows(NamedTuple):
    """The latest first. `next`: `after` for the next page; None: this is the last. `notices`: what limits the answer.
    `topics`: where messages may be whose row is gone.
    """

    rows: Sequence[TracedRow]
    next: str | None = None
    notices: Sequence[str] = ()
    topics: Sequence[str] = ()

    def as_json(self) -> Mapping[str, Any]:
        return {"rows": [each.as_json() for each in self.rows], "next": self.next, "notices": [*self.notices]}


def iso(microseconds: int | None) -> str | None:
    """ISO 8601, in UTC."""
    if microseconds is None:
        return None
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat()
    except OverflowError:  # a year that only PostgreSQL knows
        return None


def of_json(told: Mapping[str, Any]) -> FoundRows:
    """What `FoundRows.as_json` made, in this process or another."""
    return FoundRows([_row_of(each) for each in told["rows"]], told["next"], told["notices"])


def _row_of(told: Mapping[str, Any]) -> TracedRow:
    letter = told["dead_letter"]
    return TracedRow(
        _text(told["id"]) or "",
        _text(told["aggregate_type"]),
        _text(told["aggregate_id"]),
        _text(told["type"]),
        _microseconds(told["written_at"]),
        _microseconds(told["committed_at"]),
        told["in_table"],
        told["state"],
        told["why"],
        dead_letter=None if letter is None else RowDeadLetter(**letter),
        destinations=tuple(RowDestination(**each) for each in told.get("destinations", ())),
        copies=tuple(_copy_of(each) for each in told["copies"]),
        read_back=told["read_back"],
    )


def _text(told: Any) -> str | None:
    """The inverse of `shown`."""
    return b64decode(told["base64"]).decode("utf-8", "surrogateescape") if isinstance(told, dict) else told


def _copy_of(told: Mapping[str, Any]) -> RowCopy:
    members = {name: value for name, value in told.items() if name != "timestamp"}
    return RowCopy(**members, timestamp_ms=(_microseconds(told["timestamp"]) or 0) // 1000)


def _microseconds(text: str | None) -> int | None:
    if text is None:
        return None
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def _copy(copy: RowCopy) -> dict[str, Any]:
    sink, topic, partition, offset, timestamp_ms, position, replayed = copy
    return {
        "sink": sink,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": iso(timestamp_ms * 1000),
        "position": position,
        "replayed": replayed,
    }
