"""Dead letters on their way again: routed by the rules of today, published, and closed only after the receipt.

They go out in waves with at most one letter of a key in each, so that what is refused again holds back only what is
behind it. A wave is one transaction: a crash before its end has its letters published again, with the same ids.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from time import monotonic
from typing import Literal, NamedTuple

from walrelay.dead_letter import UNDECODABLE
from walrelay.dead_letters import Kept, Letterbox
from walrelay.dead_letters.handling import Line
from walrelay.errors import Fatal, StartAnew, Undecodable, Unroutable
from walrelay.model import REPLAYED, Message, OutboxRecord, Receipt, Refusal
from walrelay.publish import Sink

_WAVE = 200  # letters
_WAIT = 0.05  # seconds

Route = Callable[[OutboxRecord], Sequence[Message]]


class Replayed(NamedTuple):
    """What came of a letter, and why it was refused, or left: it is closed, or an earlier one is not."""

    id: int
    outcome: Literal["replayed", "refused", "left"]
    why: str = ""


class Redelivery:
    """`open_sink` makes a new sink, also after a refusal that ended one. `patience`: seconds without any receipt."""

    def __init__(
        self, box: Letterbox, route: Route, open_sink: Callable[[], Sink], by: str, patience: float = 30.0
    ) -> None:
        self._box, self._route, self._open, self._by, self._patience = box, route, open_sink, by, patience

    def letters(self, ids: Sequence[int], statuses: Sequence[str]) -> Iterator[Replayed]:
        """Replays those of the letters that have one of these statuses, in order; tells of each."""
        left = self._box.lines(ids)
        stuck: set[tuple[str | None, bytes | None]] = set()
        while left:
            wave, left = _wave(left)
            lines = [line for line in wave if _key(line) not in stuck]
            yield from (
                Replayed(line.id, "left", "an earlier letter of its key was refused")
                for line in wave
                if line not in lines
            )
            for told in self._publish(lines, statuses):
                if told.outcome == "refused":
                    stuck |= {_key(line) for line in lines if line.id == told.id and line.key is not None}
                yield told

    def _publish(self, lines: Sequence[Line], statuses: Sequence[str]) -> list[Replayed]:
        told: dict[int, Replayed] = {}
        with self._box.held(lines, statuses) as letters:
            waiting: dict[int, Sequence[Message]] = {}
            for kept in letters:
                try:
                    waiting[kept.id] = self._messages(kept)
                except (Unroutable, Undecodable) as why:
                    error = UNDECODABLE if isinstance(why, Undecodable) else "unroutable"
                    self._box.refused(kept.id, error, str(why))
                    told[kept.id] = Replayed(kept.id, "refused", str(why))
            while waiting:  # again with a new sink, where one ended or asks for that
                waiting = self._once(waiting, told)
            self._box.replayed([each.id for each in told.values() if each.outcome == "replayed"], self._by)
        closed = "it is closed, or waits behind another letter of its key"
        return [told.get(line.id, Replayed(line.id, "left", closed)) for line in lines]

    def _once(self, waiting: dict[int, Sequence[Message]], told: dict[int, Replayed]) -> dict[int, Sequence[Message]]:
        """Publishes as many as one sink takes; returns the rest."""
        owed = {id_: len(messages) for id_, messages in waiting.items()}
        with closing(self._open()) as sink, suppress(StartAnew):
            offers = [(message, id_) for id_, messages in waiting.items() for message in messages]
            moved, ended = monotonic(), False
            while owed and not ended:
                while offers and sink.publish(*offers[0]):
                    offers.pop(0)
                sink.flush(_WAIT)
                for heard in sink.receipts(_WAIT):
                    moved = monotonic()
                    ended |= isinstance(heard, Refusal) and heard.ends
                    self._settle(heard, owed, told)
                if monotonic() - moved > self._patience:
                    why = sink.trouble() or "it does not say why"
                    raise Fatal(
                        f"the broker has given no receipt for {self._patience:g} s: {why}",
                        hint="What has no receipt stays where it is. Replay again when the broker answers.",
                    )
        return {id_: waiting[id_] for id_ in owed}

    def _settle(self, heard: Receipt | Refusal, owed: dict[int, int], told: dict[int, Replayed]) -> None:
        id_ = heard.ticket
        if isinstance(heard, Refusal):
            owed.pop(id_, None)
            self._box.refused(id_, heard.error, heard.reason)
            told[id_] = Replayed(id_, "refused", heard.reason)
        elif id_ in owed:
            owed[id_] -= heard.messages
            if owed[id_] == 0:
                del owed[id_]
                told[id_] = Replayed(id_, "replayed")

    def _messages(self, kept: Kept) -> Sequence[Message]:
        """By the rules of today; Unroutable where they yield none, Undecodable where there is nothing to route."""
        _, _, error, reason, _, _, record, message, *_ = kept.letter
        if error == UNDECODABLE:
            raise Undecodable(reason)
        if record is not None:
            routed = self._route(record)
            number = kept.letter.place.number
            messages = routed if message is None else routed[number : number + 1]
        else:
            messages = [] if message is None else [message]
        if not messages:
            raise Unroutable("there is nothing to publish: the rules drop it now")
        return [each._replace(headers=[*each.headers, REPLAYED]) for each in messages]


def _wave(left: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """The first letter of each key, and what stays for later waves; both in order."""
    wave: list[Line] = []
    later: list[Line] = []
    taken = set()
    for line in left:
        fits = len(wave) < _WAVE and (line.key is None or _key(line) not in taken)
        (wave if fits else later).append(line)
        taken.add(_key(line))
    return wave, later


def _key(line: Line) -> tuple[str | None, bytes | None]:
    return line.topic, line.key
