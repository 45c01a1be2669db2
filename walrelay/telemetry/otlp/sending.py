"""What a process sends to its collector, from its start to its end."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from time import monotonic

from walrelay.observe import Observer, notices
from walrelay.observe.numbers import RelayNumbers
from walrelay.telemetry.otlp.exporters import Exporter, resource
from walrelay.telemetry.otlp.logs import LoggedEvent, log_records
from walrelay.telemetry.otlp.metrics import metrics_data
from walrelay.telemetry.otlp.options import OtlpOptions
from walrelay.telemetry.otlp.outlet import Outlet, Pulse
from walrelay.telemetry.otlp.spans import SpanMaker
from walrelay.telemetry.otlp.traces import TracedOutcome, TracedRelay, TraceObserver
from walrelay.telemetry.overhearing import overheard
from walrelay.telemetry.views import Views
from walrelay.wiring import Wiring

_PATIENCE = 2.0  # seconds that an end may take because of a collector


class OtlpSending:
    """To be entered once; relays may come and go meanwhile. Fatal where a library is missing."""

    def __init__(self, options: OtlpOptions, views: Views, observer: Observer) -> None:
        """`observer`: the process's own, for notices about the collector."""
        self._options, self._views, self._notice = options, views, notices(observer)
        self._resource = resource()
        self._traces: Outlet[TracedOutcome] | None = None
        self._untold: dict[str, Counter[str]] = {}  # by relay

    def watch(self, name: str, wiring: Wiring, numbers: RelayNumbers) -> Sequence[Observer]:
        self._untold[name] = numbers.untold
        if self._traces is None:
            return []
        relay = TracedRelay(name, wiring.slot, wiring.sink.kinds)
        return [TraceObserver(relay, self._traces, numbers.untold, self._options.sample)]

    def forget(self, name: str) -> None:
        """That relay is no more."""
        self._untold.pop(name, None)

    @contextmanager
    def sending(self) -> Iterator[None]:
        exporters = {signal: Exporter(signal, self._options) for signal in self._options.signals}
        running: list[Outlet[TracedOutcome] | Outlet[LoggedEvent] | Pulse] = []
        with ExitStack() as stack:
            stack.callback(_end, running, list(exporters.values()))
            if (exporter := exporters.get("metrics")) is not None:
                running.append(Pulse("metrics", partial(self._metrics, exporter), self._notice, self._options.interval))
            if (exporter := exporters.get("traces")) is not None:
                self._traces = Outlet("traces", partial(_spans, exporter, SpanMaker(self._resource)), self._notice)
                running.append(self._traces)
            if (exporter := exporters.get("logs")) is not None:
                logs = Outlet("logs", partial(self._logs, exporter), self._notice)
                running.append(logs)
                stack.enter_context(overheard(partial(self._hear, logs)))
            yield

    def _metrics(self, exporter: Exporter, last: bool) -> str:
        """The last time nobody is asked: PostgreSQL may be why the process ends."""
        views = self._views.without_asking() if last else self._views()
        return exporter.send(metrics_data(views, self._resource)) if views else ""

    def _logs(self, exporter: Exporter, events: Sequence[LoggedEvent]) -> str:
        return exporter.send(log_records(events, self._resource))

    def _hear(self, logs: Outlet[LoggedEvent], level: str, fields: Mapping[str, object]) -> None:
        lost = self._untold.get(str(fields.get("relay", "")), Counter())
        logs.offer(LoggedEvent.now(level, fields), lost)


def _spans(exporter: Exporter, maker: SpanMaker, outcomes: Sequence[TracedOutcome]) -> str:
    return exporter.send(maker.make(outcomes))


def _end(running: Sequence[Outlet[TracedOutcome] | Outlet[LoggedEvent] | Pulse], exporters: Sequence[Exporter]) -> None:
    until = monotonic() + _PATIENCE
    for each in running:
        each.end()
    for each in running:
        each.join(max(0.0, until - monotonic()))
    for exporter in exporters:
        exporter.close()
