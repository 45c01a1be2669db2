"""The matrix as JSON, where a new run replaces its own cells and keeps the others, and as a Markdown table."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.peers.matrix_outcome import Outcome


@dataclass(frozen=True)
class Cell:
    """A case of a tool: its outcome, or why there is none."""

    case: str
    tool: str
    version: str
    date: str
    outcome: Outcome | None
    reason: str = ""


def read(file: Path) -> list[Cell]:
    """Nothing where there is no file."""
    if not file.exists():
        return []
    return [_cell(fields) for fields in json.loads(file.read_text())]


def write(file: Path, cells: Sequence[Cell]) -> None:
    """All or nothing: a run may be cut off at any time."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")
    partial.replace(file)


def replaced(cells: Sequence[Cell], new: Cell) -> list[Cell]:
    """With `new` in the place of an older one."""
    return [*(cell for cell in cells if (cell.case, cell.tool) != (new.case, new.tool)), new]


def render(cells: Sequence[Cell], cases: Mapping[str, str], tools: Sequence[str]) -> str:
    """cases: name -> what happens in it, in the order of the rows; tools: in the order of the columns."""
    found = {(cell.case, cell.tool): cell for cell in cells}
    shown = [tool for tool in tools if any(cell.tool == tool for cell in cells)]
    versions = {cell.tool: cell.version for cell in cells}
    lines = [_row(["", *(f"{tool} ({versions[tool]})" for tool in shown)]), "|---" * (len(shown) + 1) + "|"]
    for case, meaning in cases.items():
        if any((case, tool) in found for tool in shown):
            texts = [_text(found.get((case, tool))) for tool in shown]
            lines.append(_row([meaning, *texts]))
    return "\n".join(lines) + "\n"


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _cell(fields: dict[str, Any]) -> Cell:
    outcome = fields["outcome"]
    return Cell(**{**fields, "outcome": None if outcome is None else Outcome(**outcome)})


def _text(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if cell.outcome is None:
        return f"not run: {cell.reason}"
    return "<br>".join(part.replace("|", "\\|") for part in _parts(cell.outcome))


def _parts(outcome: Outcome) -> Iterator[str]:
    yield f"{outcome.delivered:,} of {outcome.committed:,} delivered"
    yield f"lost {outcome.lost:,}, repeated {outcome.repeated:,}, out of order {outcome.out_of_order:,}"
    if outcome.back_after:
        times = ["never" if seconds is None else f"{seconds:.1f} s" for seconds in outcome.back_after]
        yield "back after " + ", ".join(times)
    if outcome.exits:
        codes = ", ".join(map(str, sorted({*outcome.exits})))
        yield f"ended by itself {len(outcome.exits)} times (exit code {codes}), started again"
    yield from (f"{name}: {value:g}" for name, value in outcome.values.items())
    yield from outcome.notes
