"""The numbers as OTLP has them: the same instruments that Prometheus reads."""

from collections.abc import Iterable, Sequence
from time import time_ns

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from walrelay import __version__
from walrelay.observe.numbers import Distribution
from walrelay.telemetry.instruments import INSTRUMENTS, Instrument, RelayView
from walrelay.telemetry.instruments.reading import open_name

SCOPE = InstrumentationScope("walrelay", __version__)


def metrics_data(views: Sequence[RelayView], resource: Resource) -> MetricsData:
    """All instruments that have a value now."""
    now = time_ns()
    metrics = [metric for each in INSTRUMENTS if (metric := _metric(each, views, now)) is not None]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(SCOPE, metrics, "")], "")])


def _metric(instrument: Instrument, views: Iterable[RelayView], now: int) -> Metric | None:
    labels = [open_name(label) for label in instrument.labels]
    numbers: list[NumberDataPoint] = []
    histograms: list[HistogramDataPoint] = []
    for view in views:
        began = int(view.numbers.began_at * 1e9)
        for own, value in instrument.read(view):
            attributes = {"relay": view.name, "slot": view.numbers.slot, **dict(zip(labels, own, strict=True))}
            if isinstance(value, Distribution):
                histograms.append(_histogram(value, attributes, began, now))
            else:
                numbers.append(NumberDataPoint(attributes, began, now, value))
    if not numbers and not histograms:
        return None
    data: Sum | Gauge | Histogram = Gauge(numbers)
    if instrument.kind == "histogram":
        data = Histogram(histograms, AggregationTemporality.CUMULATIVE)
    elif instrument.kind == "counter":
        data = Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Metric(instrument.open_name, instrument.meaning, instrument.unit, data)


def _histogram(values: Distribution, attributes: dict[str, str], began: int, now: int) -> HistogramDataPoint:
    counts = values.counts.copy()
    smallest = largest = None  # which nobody counts, and OTLP may leave out
    return HistogramDataPoint(
        attributes,
        began,
        now,
        sum(counts),
        values.sum,
        counts,
        values.bounds,
        smallest,  # type: ignore[arg-type]
        largest,  # type: ignore[arg-type]
    )
