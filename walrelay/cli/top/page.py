"""The page that `walrelay top` draws: all relays, and more of the one that is selected."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from threading import Event, Thread
from time import monotonic

import click

from walrelay.cli.top.looking import Looking, RemoteLooking, TopLook
from walrelay.cli.top.table import COLORS, COLUMNS, columns, cut, heading, plain, row, seconds, short
from walrelay.cli.top.terminal import Terminal
from walrelay.operations.overview import SeenRelay
from walrelay.postgres.sizes import size
from walrelay.unforeseen import explained

_DETAILS = 9  # lines at most
_TOPICS = 3
_KEYS = "q quit   ↑↓ select   s S sort by   r reverse"


class TopPage:
    """Databases are asked in another thread, so that keys are obeyed while one does not answer."""

    def __init__(
        self, looking: Looking | RemoteLooking, terminal: Terminal, faults: Sequence[str], interval: float
    ) -> None:
        """`faults`: what is wrong in the settings."""
        self._looking, self._terminal, self._faults, self._interval = looking, terminal, faults, interval
        self._look: TopLook | None = None
        self._sort, self._reverse, self._selected = 0, False, ""
        self._changed, self._ends = Event(), Event()

    def show(self) -> None:
        """Until a key or a signal ends it."""
        thread = Thread(target=self._ask, name="look", daemon=True)
        thread.start()
        try:
            while not self._terminal.stop.is_set():
                self._terminal.draw([*self._lines()])
                if "q" in (keys := self._terminal.keys(monotonic() + 0.25)):
                    return
                for key in keys:
                    self._obey(key)
        finally:
            self._ends.set()

    def _ask(self) -> None:
        while not self._ends.is_set():
            self._look = self._looking.look()
            self._ends.wait(self._interval)

    def _obey(self, key: str) -> None:
        shown = len(columns(self._terminal.size[0]))
        match key:
            case "j" | "k":
                names = [each.seen.slot for each in self._sorted()]
                place = names.index(self._selected) if self._selected in names else 0
                place += 1 if key == "j" else -1
                self._selected = names[max(0, min(place, len(names) - 1))] if names else ""
            case "s" | "S":
                self._sort = (self._sort + (1 if key == "s" else -1)) % shown
                self._reverse = not isinstance(self._key(self._sorted()[0]), str) if self._sorted() else False
            case "r":
                self._reverse = not self._reverse

    def _key(self, relay: SeenRelay) -> float | str:
        return COLUMNS[self._sort].order(relay)

    def _sorted(self) -> list[SeenRelay]:
        found = sorted(self._look.relays if self._look else (), key=lambda each: each.seen.name)
        return sorted(found, key=lambda each: (self._key(each),), reverse=self._reverse)

    def _lines(self) -> Iterator[str]:
        width, height = self._terminal.size
        relays = self._sorted()
        if relays and self._selected not in {each.seen.slot for each in relays}:
            self._selected = relays[0].seen.slot
        place = next((number for number, each in enumerate(relays) if each.seen.slot == self._selected), 0)
        problems = [*self._problems(width)]
        details = [*_details(relays[place], width)][:_DETAILS] if relays else []
        room = max(1, height - 4 - len(problems) - len(details))
        first = max(0, min(place - room // 2, len(relays) - room))
        yield self._summary(relays, width)
        yield from problems
        yield heading(width, self._sort)
        shown = relays[first : first + room]
        for each in shown:
            yield row(each, width, selected=each.seen.slot == self._selected)
        yield from [""] * max(0, room - len(shown))
        yield click.style("─" * width, dim=True)
        yield from details
        yield click.style(cut(f"{_KEYS} ({COLUMNS[self._sort].head or 'why'})", width), dim=True)

    def _summary(self, relays: Sequence[SeenRelay], width: int) -> str:
        if self._look is None:
            return "walrelay top: asking"
        published = sum(each.rates.published for each in relays if each.rates is not None)
        moved = sum(each.rates.bytes for each in relays if each.rates is not None)
        parts = [f"{len(relays)} relay{'s' * (len(relays) != 1)}"]
        for level in ("critical", "warning"):
            count = sum(each.judgement.level == level for each in relays)
            if count:
                parts.append(click.style(f"{count} {level}", fg=COLORS[level], bold=True))
        parts += [f"{short(published)} events/s", f"{short(moved)}B/s"]
        left = f"{click.style('walrelay top', bold=True)}  {'  '.join(parts)}"
        clock = datetime.now().strftime("%H:%M:%S")
        gap = width - len(click.unstyle(left)) - len(clock)
        return left + " " * gap + clock if gap > 0 else left

    def _problems(self, width: int) -> Iterator[str]:
        for text in self._faults:
            yield click.style(cut(plain(text), width), fg="red")
        for names, error in self._look.errors if self._look else ():
            yield click.style(cut(plain(f"{names}: {explained(error)}"), width), fg="red")


def _details(relay: SeenRelay, width: int) -> Iterator[str]:
    """Of one relay, what the table has no room for."""
    for head, text in _facts(relay):
        yield f"{click.style(f'{head:<11}', dim=True)}{cut(plain(text), max(0, width - 11))}"


def _facts(relay: SeenRelay) -> Iterator[tuple[str, str]]:
    seen, live, judgement = relay.seen, relay.live, relay.judgement
    todo = f" → {judgement.todo}" if judgement.todo else ""
    yield judgement.level, f"{seen.name}: {judgement.why}{todo}"
    standbys = f", {seen.standbys} standing by" if seen.standbys else ""
    yield "leader", f"{seen.instance or 'nobody'}{standbys}; slot {seen.slot} at {seen.position or 'no position'}"
    if seen.paused:
        until = f" until {seen.paused_until}" if seen.paused_until else ""
        limit = f", to {size(seen.pause_limit)}, then {seen.at_pause_limit}" if seen.pause_limit else ""
        yield "paused", f"by {seen.paused_by or 'an unknown role'}: {seen.pause_reason or 'no reason'}{until}{limit}"
    if seen.last_error:
        yield "last error", seen.last_error
    if relay.in_flight is None:
        if seen.instance is not None:
            yield "live", "its process tells nothing: an earlier version, or `walrelay doctor` says why"
        return
    latency = relay.latency
    took = f"{seconds(latency.p50)} of half, {seconds(latency.p99)} of 99 in 100" if latency else "nothing lately"
    counted = "" if live is None else f"; {short(live.published)} published, {live.retries} retries"
    yield "latency", f"{took}; {relay.in_flight} in flight{counted}"
    if live is None:  # the admin API tells of all relays at once no more than that
        return
    if live.stalled is not None:
        yield "stalled", f"by the {live.stalled.by} for {seconds(live.at - live.stalled.since)}: {live.stalled.why}"
    for each in sorted(live.topics, key=lambda each: -each.messages)[:_TOPICS]:
        where = f"{each.sink}:{each.topic}" if each.sink else each.topic
        yield "topic", f"{where}: {short(each.messages)} messages, {short(each.bytes, 1024)}B"
