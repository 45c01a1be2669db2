"""A relay, as those who watch it see it."""

from walrelay.lsn import LSN
from walrelay.model import Message
from walrelay.observe import (
    Happening,
    Streaming,
)
from walrelay.observe.numbers import RelayNumbers
from walrelay.operations.figures import SlotFigures
from walrelay.telemetry.health import RelayHealth, health
from walrelay.telemetry.instruments import RelayView

STREAMING = Streaming("s", LSN(1), "pgoutput")
FIGURES = SlotFigures(True, "reserved", "0/5", 0, 10, None, 0.0, 0, 8192, 0, 0)
STALL = 60.0


def seen(*happenings: Happening, several_sinks: bool = False, topics: int = 100) -> RelayNumbers:
    numbers = RelayNumbers("s", several_sinks=several_sinks, topics=topics)
    for each in happenings:
        numbers.saw(each)
    return numbers


def view(
    numbers: RelayNumbers, figures: SlotFigures | None = FIGURES, unmoved_since: float = float("inf")
) -> RelayView:
    return RelayView("r", numbers, {"": "kafka"}, figures, figures is not None, unmoved_since)


def told(numbers: RelayNumbers, after: float = 0.0, **others: object) -> RelayHealth:
    """So many seconds after the loop last turned."""
    return health(view(numbers, **others), numbers.turned_at + after, STALL)  # type: ignore[arg-type]


def message(topic: str, value: bytes | None = b"12345") -> Message:
    return Message(topic, None, value, [], 0)
