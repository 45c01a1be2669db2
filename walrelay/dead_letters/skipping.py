"""What `walrelay skip` shows: rows in the slot that the relay cannot read."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from walrelay.dead_letter import UNDECODABLE, WHOLE_TRANSACTION, DeadLetter, Origin
from walrelay.dead_letters.store import DeadLetterTableWriter, skips
from walrelay.decode.lines import RawColumn, RawRowReader
from walrelay.errors import Fatal, Undecodable
from walrelay.model import Committed, Event, Idle, RecordPosition, Skipped, Undecoded
from walrelay.postgres.catalog import Catalog
from walrelay.source.peek import Peek
from walrelay.wiring import Wiring

_AT_A_TIME = 1000  # records


class Unreadable(NamedTuple):
    """A row that cannot be read: its dead letter, and its columns."""

    letter: DeadLetter
    columns: list[RawColumn]


class Skipping:
    """The unreadable rows at a position of the slot, or in a transaction, if the position has no ordinal. No relay may
    be reading the slot. Rows are read as the relay reads them: Fatal if that stops at an earlier row.
    """

    def __init__(
        self, wiring: Wiring, catalog: Catalog, position: RecordPosition, notice: Callable[[str], None]
    ) -> None:
        self._writer = DeadLetterTableWriter(catalog, wiring.slot, wiring.sink.sink_of)
        self.rows = list(_unreadable(wiring, catalog, position, notice))
        if not self.rows:
            raise Fatal(
                f"there is no unreadable row at {position}: the slot has no such row, or the row can be read",
                hint="`walrelay run` names the position it stops at; `walrelay tail` shows what waits.",
            )

    def skip(self, reason: str, by: str) -> None:
        """Makes the relay skip them: keeps them whole, with operator and reason."""
        for letter, _ in self.rows:
            why = f"{letter.reason} Skipped because: {reason}" if reason else letter.reason
            self._writer.skip(letter._replace(reason=why), by)


def _unreadable(
    wiring: Wiring, catalog: Catalog, position: RecordPosition, notice: Callable[[str], None]
) -> Iterator[Unreadable]:
    lsn, ordinal = position
    slot, binary = wiring.slot, wiring.binary_suits(catalog)
    named = skips(catalog, slot) | {(lsn, ordinal)}
    encoding = catalog.server_encoding()
    decode = wiring.decoder(wiring.needed, encoding=encoding, binary=binary, skips=named).decode
    raw = RawRowReader(wiring.plugin)
    peek = Peek(wiring.dsn, catalog, slot, wiring.publication, wiring.options(binary=binary), notice)
    with closing(peek.frames(_AT_A_TIME)) as frames:
        for frame in frames:
            raw.learn(frame)
            for event in _readable(decode, frame):  # one by one: later rows do not matter
                if isinstance(event, Undecoded) and wiring.policy.default == "stop":
                    raise _another(event.reason, event.hint)
                if isinstance(event, Skipped) and event.lsn == lsn and ordinal in (None, event.ordinal):
                    yield Unreadable(_letter(event, frame), raw.columns(frame))
                    if ordinal is not None:
                        return
                if isinstance(event, Committed | Idle) and event[0] > lsn:
                    return


def _readable(decode: Callable[[bytes], Iterable[Event]], frame: bytes) -> Iterator[Event]:
    try:
        yield from decode(frame)
    except Undecodable as error:
        raise _another(str(error), error.hint) from error


def _another(why: str, hint: str) -> Fatal:
    return Fatal(f"the relay stops at a different row than the named one: {why}", hint=f"Handle that row first. {hint}")


def _letter(skipped: Skipped, frame: bytes) -> DeadLetter:
    ordinal = WHOLE_TRANSACTION if skipped.ordinal is None else skipped.ordinal
    origin = Origin(skipped.lsn, ordinal, 0, "")
    return DeadLetter(origin, "skipped", UNDECODABLE, skipped.why, raw=frame, attempts=0)
