"""What a case of the matrix found for a tool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.bench.peers.consumer import Event
from tests.bench.peers.deliveries import compare
from tests.bench.peers.matrix_stage import Stage

_MARGIN = 0.01  # seconds: an event may be read before its COMMIT has returned


@dataclass(frozen=True)
class Outcome:
    """Numbers and remarks; nothing is judged here."""

    committed: int
    delivered: int  # different events
    lost: int
    repeated: int
    out_of_order: int
    back_after: list[float | None] = field(default_factory=list)  # seconds, a disturbance each; None: never
    exits: list[int] = field(default_factory=list)  # exit codes of the tool's own ends
    values: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def outcome(
    stage: Stage,
    arrived: Sequence[Event],
    *,
    expected: set[int] | None = None,
    back_after: Sequence[float | None] = (),
    values: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
) -> Outcome:
    """expected: the events that should have arrived, if not all that are in the table."""
    committed = stage.committed() if expected is None else expected
    found = compare(committed, arrived)
    strange = [f"{found.strange} events that are not in the table"] if found.strange else []
    spread = [f"{found.spread_keys} keys in more than one partition"] if found.spread_keys else []
    return Outcome(
        committed=len(committed),
        delivered=found.events,
        lost=found.lost,
        repeated=found.duplicates,
        out_of_order=found.out_of_order,
        back_after=[None if seconds is None else round(seconds, 2) for seconds in back_after],
        exits=[end.code for end in stage.tool.exits],
        values={name: round(value, 2) for name, value in (values or {}).items()},
        notes=[*strange, *spread, *notes],
    )


def back(arrived: Sequence[Event], committed: Mapping[int, float], disturbed: float, available: float) -> float | None:
    """Seconds from when the tool could work again to the first event that was committed after the disturbance.

    What it had read before may still arrive, so that an earlier event says nothing.
    """
    after = {number for number, at in committed.items() if at > disturbed + _MARGIN}
    return min((event.at - available for event in arrived if event.number in after), default=None)
