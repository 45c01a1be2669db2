"""Begins where Debezium stopped, by the offset that it stored.

Debezium confirms to its slot less than it has published, even when it is stopped in good order: an offset belongs to an
event and names the commit before that event's transaction, so the last transaction would come again, and with a kill
all since the last flush. The offset also names the event itself: its transaction, the LSN of its change, and the number
of the change among those that share this LSN (the rows of a COPY do). What waits in the slot says which record it is.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from struct import unpack_from
from typing import Any, NamedTuple

from walrelay.errors import Fatal
from walrelay.lsn import LSN, ZERO
from walrelay.model import OutboxRecord, RecordPosition, Undecoded
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.locks import hold, lead_lock, slot_lock
from walrelay.postgres.slots import unread
from walrelay.source.peek import Peek
from walrelay.source.slot_source import usable_slot
from walrelay.wire import pgoutput
from walrelay.wire.frames import BODY
from walrelay.wiring import Wiring, begin_at

_JAVA = b"\xac\xed\x00\x05"  # how a serialized object begins
_CHANGES = frozenset({pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE, pgoutput.TRUNCATE})
_NO_CHANGE = ("BEGIN", "COMMIT")
_FORMS = (
    "It must be the file of offset.storage.file.filename, or what Kafka Connect answers to"
    " GET /connectors/NAME/offsets once the connector is stopped."
)


class Offset(NamedTuple):
    """What Debezium had published: all transactions that end at or before `commit_lsn`, and of the transaction `xid`
    the changes up to the `nth` one at `lsn`. `xid` None: nothing of a later one.
    """

    commit_lsn: LSN
    xid: int | None = None
    lsn: LSN = ZERO
    nth: int = 1


class TakeOver(NamedTuple):
    """From where the slot is to where it will be: `lsn`. `passed`: records that wait in the slot and are published.
    `inside`: the first record that is not, where that is in the middle of a transaction, which has `records` of them.
    """

    slot: Slot
    lsn: LSN
    passed: int = 0
    inside: RecordPosition | None = None
    records: int = 0


def offsets(content: bytes, name: str) -> dict[str, Offset]:
    """By the connector's topic.prefix, from the file `name`. Fatal if it has none, or one inside a snapshot."""
    if content.startswith(_JAVA):
        texts = list(_byte_arrays(content))
        pairs = [
            (_parsed(key, name), _parsed(value, name)) for key, value in zip(texts[::2], texts[1::2], strict=False)
        ]
    else:
        answer = _parsed(content, name)
        listed = answer.get("offsets") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise Fatal(f"{name} holds no offsets of Debezium", hint=_FORMS)
        pairs = [(["", each.get("partition")], each.get("offset")) for each in listed if isinstance(each, dict)]
    found = dict[str, Offset]()
    for key, value in pairs:
        try:
            found[key[1]["server"]] = _offset(value)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            raise Fatal(f"{name} holds an offset that is not of Debezium's PostgreSQL connector", hint=_FORMS) from None
    if not found:
        raise Fatal(
            f"{name} holds no offset", hint=f"Debezium had published nothing, or this is not its file. {_FORMS}"
        )
    return found


def chosen(found: dict[str, Offset], prefix: str | None) -> Offset:
    """The one of the connector with that topic.prefix; where there is only one, that."""
    if prefix in found:
        return found[prefix]
    if len(found) == 1 and prefix is None:
        return next(iter(found.values()))
    raise Fatal(
        f"there are offsets of {', '.join(sorted(map(repr, found)))}, and none of {prefix!r}",
        hint="Set debezium.topic.prefix to the connector's topic.prefix.",
    )


def plan(wiring: Wiring, catalog: Catalog, offset: Offset, notice: Callable[[str], None]) -> TakeOver:
    """Reads what waits in the slot, up to where Debezium stopped; changes nothing. Fatal if Debezium still runs, or the
    offset is not of this slot.
    """
    slot = usable_slot(catalog.slot(wiring.slot), wiring.slot, "pgoutput", catalog.database)
    if slot.active_pid is not None:
        raise Fatal(
            f"slot {slot.name!r} is read by PID {slot.active_pid}: Debezium still runs, or a relay",
            hint="Stop it, wait until it has ended, and take the offset that is stored then.",
        )
    confirmed = slot.confirmed_flush_lsn or ZERO
    walked = _Walk(wiring, catalog, offset)
    peek = Peek(wiring.dsn, catalog, slot.name, wiring.publication, wiring.options(binary=False), notice)
    with closing(peek.frames(1)) as frames:
        for frame in frames:
            walked.take(frame)
            if walked.over:
                break
    if max(offset.lsn, offset.commit_lsn) > confirmed and not walked.found:  # of it nothing may be believed
        what = f"a change at {offset.lsn} of transaction {offset.xid}"
        raise Fatal(
            f"the offset names {what if offset.xid is not None else f'a commit that ends at {offset.commit_lsn}'},"
            f" which does not wait in slot {slot.name!r}: it is another connector's, or the slot was made anew",
            hint="Give the offset of the connector that used this slot. `walrelay tail` shows what waits.",
        )
    inside = walked.inside
    return TakeOver(slot, max(confirmed, walked.end), walked.passed, inside, walked.records if inside else 0)


def take_over(wiring: Wiring, catalog: Catalog, planned: TakeOver) -> None:
    """Moves the slot, and the relay's own position if it keeps one, which may be inside a transaction."""
    hold(catalog, slot_lock(catalog, wiring.slot))
    hold(catalog, lead_lock(wiring.slot, "take over again"))
    slot = unread(catalog, wiring.slot)
    if slot is None or slot.confirmed_flush_lsn != planned.slot.confirmed_flush_lsn:
        raise Fatal(f"slot {wiring.slot!r} was moved meanwhile", hint="Run the command again.")
    moves = planned.lsn > (slot.confirmed_flush_lsn or ZERO)
    if moves:
        catalog.rows("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", wiring.slot, str(planned.lsn))
    if moves or planned.inside is not None:  # else a later position of the relay's own would be set back
        begin_at(wiring, catalog, inside=planned.inside if keeps_parts(wiring) else None)


def keeps_parts(wiring: Wiring) -> bool:
    """Whether the relay can begin in the middle of a transaction."""
    return wiring.position.place == "file"  # a table does not say how records are counted, a topic takes whole groups


class _Walk:
    """Through the transactions that wait, up to the last that Debezium began to publish."""

    def __init__(self, wiring: Wiring, catalog: Catalog, offset: Offset) -> None:
        self._offset = offset
        self._decode = wiring.decoder(wiring.needed, encoding=catalog.server_encoding(), binary=False).decode
        self._begin = pgoutput.Begin(ZERO, 0, 0)
        self._changes = 0  # of the transaction, at the offset's LSN
        self._published: int | None = None  # records of the transaction up to the offset
        self.end = ZERO  # of the last transaction that was published whole
        self.passed = self.records = 0
        self.inside: RecordPosition | None = None
        self.found = self.over = False

    def take(self, frame: bytes) -> None:
        kind = frame[BODY]
        if kind == pgoutput.BEGIN:
            self._begin, self.records, self._changes, self._published = pgoutput.parse_begin(frame), 0, 0, None
        self.records += sum(isinstance(event, OutboxRecord | Undecoded) for event in self._decode(frame))
        if kind in _CHANGES and (self._begin.xid, _lsn(frame)) == (self._offset.xid, self._offset.lsn):
            self._changes += 1
            if self._changes == self._offset.nth:
                self._published, self.found = self.records, True
        elif kind == pgoutput.COMMIT:
            self._ended(pgoutput.parse_commit(frame).end_lsn)

    def _ended(self, end: LSN) -> None:
        whole = end <= self._offset.commit_lsn or self._published == self.records
        self.found |= self._offset.xid is None and end == self._offset.commit_lsn
        if whole and not self.over:
            self.end, self.passed = end, self.passed + self.records
        elif self._published:
            self.inside = RecordPosition(self._begin.final_lsn, self._published)
            self.passed += self._published
        self.over = end > self._offset.commit_lsn


def _lsn(frame: bytes) -> LSN:
    """Where the frame's change is in the WAL."""
    return LSN(unpack_from(">Q", frame, 1)[0])


def _offset(members: dict[str, Any]) -> Offset:
    if "snapshot" in members:
        if not members.get("last_snapshot_record"):
            raise Fatal(
                "Debezium was stopped in its snapshot: what it had published of the table is not known",
                hint="Let Debezium finish its snapshot, then stop it.",
            )
        return Offset(ZERO)
    if members.get("messageType") == "MESSAGE":
        return Offset(ZERO)  # outside of a transaction: it cannot be found again in the slot
    commit_lsn = LSN(int(members.get("lsn_commit") or 0))
    if members.get("messageType") in _NO_CHANGE or "txId" not in members:
        return Offset(commit_lsn)
    nth = max(1, int(members.get("lsn_events_processed", 1)))
    return Offset(commit_lsn, int(members["txId"]), LSN(int(members["lsn"])), nth)


def _byte_arrays(content: bytes) -> Iterator[bytes]:
    """Those of a serialized java.util.HashMap of byte arrays: keys and values in turns. The first comes with the
    description of its class, the others refer to it.
    """
    at = content.find(b"ur\x00\x02[B")
    while 0 <= at < len(content) and content[at : at + 1] == b"u":
        at += 19 if content[at + 1 : at + 2] == b"r" else 6
        length = int.from_bytes(content[at : at + 4], "big")
        yield content[at + 4 : at + 4 + length]
        at += 4 + length


def _parsed(text: bytes, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Fatal(f"{name} holds no offsets of Debezium", hint=_FORMS) from None
