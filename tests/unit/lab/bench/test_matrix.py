"""The matrix of crashes: when a tool counts as back, and what the table says."""

from pathlib import Path

from tests.bench.peers.consumer import Event
from tests.bench.peers.matrix_outcome import Outcome, back
from tests.bench.peers.matrix_report import Cell, read, render, replaced, write

CASES = {"walsender": "The walsender terminated.", "idle": "An idle outbox."}


def event(number: int, at: float) -> Event:
    return Event(number, at, 0, number, f"order-{number}")


def cell(case: str, tool: str, outcome: Outcome | None = None, reason: str = "") -> Cell:
    return Cell(case, tool, "1.0", "2026-11-21 12:00 UTC", outcome, reason)


def test_what_was_committed_before_the_disturbance_does_not_show_that_a_tool_is_back() -> None:
    arrived = [event(1, 10.2), event(2, 12.5)]
    assert back(arrived, {1: 9.9, 2: 10.1}, disturbed=10.0, available=10.0) == 2.5


def test_back_counts_from_when_the_server_was_there_again() -> None:
    assert back([event(1, 15.0)], {1: 10.5}, disturbed=10.0, available=14.0) == 1.0


def test_a_tool_that_sends_nothing_new_is_never_back() -> None:
    assert back([event(1, 10.2)], {1: 9.9, 2: 10.1}, disturbed=10.0, available=10.0) is None


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    cells = [cell("idle", "one", Outcome(2, 2, 0, 0, 0, values={"retained MB": 0.5})), cell("idle", "two", None, "no")]
    write(tmp_path / "matrix.json", cells)
    assert read(tmp_path / "matrix.json") == cells


def test_without_a_file_there_is_nothing_yet(tmp_path: Path) -> None:
    assert read(tmp_path / "matrix.json") == []


def test_a_new_cell_replaces_its_older_one_only() -> None:
    old, other, new = cell("idle", "one", None, "old"), cell("idle", "two"), cell("idle", "one", None, "new")
    assert replaced([old, other], new) == [other, new]


def test_the_table_has_a_row_a_case_and_a_column_a_tool() -> None:
    outcome = Outcome(5, 4, 1, 2, 0, back_after=[0.31, None], exits=[1, 1], values={"MB": 12.5}, notes=["a | b"])
    table = render([cell("walsender", "two", outcome), cell("idle", "one", None, "no Java")], CASES, ["one", "two"])
    assert table.splitlines() == [
        "|  | one (1.0) | two (1.0) |",
        "|---|---|---|",
        "| The walsender terminated. |  | 4 of 5 delivered<br>lost 1, repeated 2, out of order 0"
        "<br>back after 0.3 s, never<br>ended by itself 2 times (exit code 1), started again<br>MB: 12.5<br>a \\| b |",
        "| An idle outbox. | not run: no Java |  |",
    ]
