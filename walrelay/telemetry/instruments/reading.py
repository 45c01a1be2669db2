"""What a metric is: name, unit, meaning, and how it is read from what is known of a relay."""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, Literal, NamedTuple

from walrelay.observe.numbers import Distribution, RelayNumbers
from walrelay.operations.figures import SlotFigures
from walrelay.publish.contract import ReadNumbers

Sample = tuple[tuple[str, ...], float | Distribution]
"""The values of an instrument's own labels, and the value."""

Read = Callable[["RelayView"], Iterable[Sample]]


class RelayView(NamedTuple):
    """All that is known of a relay at one moment. `kinds`: of its sinks, by their names. `figures` None: the server did
    not answer, or has no such slot.
    """

    name: str
    numbers: RelayNumbers
    kinds: Mapping[str, str]
    figures: SlotFigures | None
    postgres_up: bool
    unmoved_since: float = inf  # when the slot was last seen to move, or to have nothing to read, by `monotonic`
    answered_at: float = inf  # when the server last answered
    client_numbers: ReadNumbers = dict  # what the client libraries count


_CONVENTION = "messaging_"  # how the names begin that the semantic conventions of OpenTelemetry have

_SYSTEMS = {"pubsub": "gcp_pubsub", "sns": "aws.sns", "sqs": "aws_sqs"}


def messaging_system(kind: str) -> str:
    """What the semantic conventions call the broker of a kind of sink; the kind itself where they have no name."""
    return _SYSTEMS.get(kind, kind)


def open_name(name: str) -> str:
    """A label or a metric as OpenTelemetry has it: Prometheus makes the same name of it that is used here."""
    return name.replace("_", ".") if name.startswith(_CONVENTION) else name


class Instrument(NamedTuple):
    """`name` as in Prometheus. `unit` as in OpenTelemetry, in braces where it has none: Prometheus adds `_ratio` to the
    name of a gauge with the unit 1. `labels`: beside relay and slot, which all have.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    labels: tuple[str, ...]
    meaning: str
    read: Read

    @property
    def open_name(self) -> str:
        """As OpenTelemetry has it: without `_total`, which Prometheus adds to a counter."""
        return open_name(self.name.removesuffix("_total"))


def of_numbers(get: Callable[[RelayNumbers], Any]) -> Read:
    """One sample, unless it is None."""

    def read(view: RelayView) -> Iterable[Sample]:
        value = get(view.numbers)
        return () if value is None else [((), value)]

    return read


def of_figures(get: Callable[[SlotFigures], float | None]) -> Read:
    def read(view: RelayView) -> Iterable[Sample]:
        value = None if view.figures is None else get(view.figures)
        return () if value is None else [((), float(value))]

    return read


def one_of(all_values: Iterable[str], get: Callable[[RelayView], str | None]) -> Read:
    """A sample for each value: 1 for the present one, 0 for the others; none where it is not known."""
    known = tuple(all_values)

    def read(view: RelayView) -> Iterable[Sample]:
        now = get(view)
        return () if now is None else [((each,), float(each == now)) for each in known]

    return read


def counts(get: Callable[[RelayNumbers], Mapping[Any, int]]) -> Read:
    def read(view: RelayView) -> Iterable[Sample]:
        for key, count in [*get(view.numbers).items()]:
            yield (key if isinstance(key, tuple) else (key,)), count

    return read
