"""How a comparison stands while it is measured: on a terminal, and where there is none."""

import io
import re

import pytest
from rich.console import Console

from walrelay.lab.bench.account import NOTHING, CommittedEvent, LatencyAccount, Measured, Received
from walrelay.lab.bench.screen import SegmentProgress


def _shown(*, terminal: bool) -> str:
    """Of two rounds with one event each, which took 5 ms, after a rehearsal."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=90)
    with SegmentProgress(console, ["walrelay"], 2) as progress:
        progress.begin(1, "rehearsal")
        progress.refresh()
        for number in (1, 2):
            progress.begin(number, "walrelay")
            progress.follow(account := LatencyAccount(1))
            account.commit(CommittedEvent(0, 0, 0))
            account.receive(Received(0, 0, 0, number, 5_000_000))
            progress.idle(3)
            progress.refresh()
            progress.end(Measured(account, NOTHING, None))
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())


def test_each_segment_is_a_line_where_there_is_no_terminal() -> None:
    lines = _shown(terminal=False).split("\n")
    said = "walrelay      1/1 events  p50  5.0 ms  p99  5.0 ms"
    assert lines == [f" round 1/2  {said}", f" round 2/2  {said}", ""]


@pytest.mark.parametrize("said", ["warming up", "2/2", "p50  5.0 ms  p99  5.0 ms"])
def test_a_terminal_shows_how_each_strategy_stands(said: str) -> None:
    assert said in _shown(terminal=True)
