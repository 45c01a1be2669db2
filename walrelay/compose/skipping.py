"""Settings to what `walrelay skip` shows: rows in the slot that the relay of these settings cannot read."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from walrelay.compose.reading import binary_suits, decoder, dsn, needed, plugin_options, publication
from walrelay.config import Settings
from walrelay.dead_letter import UNDECODABLE, WHOLE_TRANSACTION, DeadLetter, Origin
from walrelay.dead_letters.store import skips
from walrelay.decode.lines import RawColumn, RawRowReader
from walrelay.errors import Fatal, Undecodable
from walrelay.lsn import LSN
from walrelay.model import Committed, Event, Idle, Skipped, Undecoded
from walrelay.postgres.catalog import Catalog
from walrelay.source.peek import Peek

_AT_A_TIME = 1000  # records


class Unreadable(NamedTuple):
    """A row that cannot be read: the letter to keep of it, and what it holds."""

    letter: DeadLetter
    columns: list[RawColumn]


def unreadable(
    settings: Settings, catalog: Catalog, lsn: LSN, ordinal: int | None, notice: Callable[[str], None]
) -> Iterator[Unreadable]:
    """The rows at that position of the slot, which no relay may be reading now; ordinal None: of that transaction.

    Read as the relay would. Fatal where that stops at another row, which has to be looked at first.
    """
    slot, binary = settings.source.slot, binary_suits(settings, catalog)
    named = skips(catalog, slot) | {(lsn, ordinal)}
    encoding = catalog.server_encoding()
    decode = decoder(settings, needed(settings), encoding=encoding, binary=binary, skips=named).decode
    raw = RawRowReader(settings.source.plugin)
    peek = Peek(dsn(settings), catalog, slot, publication(settings), plugin_options(settings, binary=binary), notice)
    with closing(peek.frames(_AT_A_TIME)) as frames:
        for frame in frames:
            raw.learn(frame)
            for event in _readable(decode, frame):  # one by one: what stands behind the named row is not in its way
                if isinstance(event, Undecoded) and settings.refusals.policy == "stop":
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
    return Fatal(
        f"the relay stops at another row than the one that was named: {why}", hint=f"Look at that one first. {hint}"
    )


def _letter(skipped: Skipped, frame: bytes) -> DeadLetter:
    ordinal = WHOLE_TRANSACTION if skipped.ordinal is None else skipped.ordinal
    origin = Origin(skipped.lsn, ordinal, 0, "")
    return DeadLetter(origin, "skipped", UNDECODABLE, skipped.why, raw=frame, attempts=0)
