"""The numbers as Prometheus reads them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from walrelay.observe.numbers import Distribution
from walrelay.telemetry.instruments import INSTRUMENTS, Instrument, RelayView

_UNITS = {"s": " In seconds.", "By": " In bytes."}


class NumbersCollector:
    """Implements prometheus_client's collector. `aliases`: further names, by the names of metrics."""

    def __init__(self, views: Callable[[], Sequence[RelayView]], aliases: Mapping[str, str]) -> None:
        self._views, self._aliases = views, aliases

    def collect(self) -> Iterator[Metric]:
        views = self._views()
        for instrument in INSTRUMENTS:
            yield _family(instrument, instrument.name, views)
        by_name = {each.name: each for each in INSTRUMENTS}
        for alias, name in self._aliases.items():
            yield _family(by_name[name], alias, views)


def _family(instrument: Instrument, name: str, views: Iterable[RelayView]) -> Metric:
    labels, text = ("relay", "slot", *instrument.labels), instrument.meaning + _UNITS.get(instrument.unit, "")
    made = HistogramMetricFamily(name, text, labels=labels)
    other = (CounterMetricFamily if instrument.kind == "counter" else GaugeMetricFamily)(name, text, labels=labels)
    for view in views:
        for own, value in instrument.read(view):
            of = (view.name, view.numbers.slot, *own)
            if isinstance(value, Distribution):
                made.add_metric(of, *_cumulated(value))
            else:
                other.add_metric(of, value)
    return made if instrument.kind == "histogram" else other


def _cumulated(values: Distribution) -> tuple[list[tuple[str, float]], float]:
    total, buckets = 0, []
    for bound, count in zip((*map(str, values.bounds), "+Inf"), values.counts.copy(), strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets, values.sum


class Exposition:
    """What a scrape gets, in the form that its Accept header asks for."""

    def __init__(self, views: Callable[[], Sequence[RelayView]], aliases: Mapping[str, str]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(NumbersCollector(views, aliases))
        ProcessCollector(registry=self._registry)

    def text(self, accept: str) -> tuple[bytes, str]:
        """(body, content type)"""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type
