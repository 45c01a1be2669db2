"""What a process sends, as a collector sees it; and that no collector can trouble the relay."""

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.servers.collector import Collector, SpanTimes, attributes, collecting, collecting_by_grpc, value
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import Message
from walrelay.observe import Happening, Noticed, Observer, Observers, Relayed, Retrying, Settled
from walrelay.observe.numbers import RelayNumbers
from walrelay.operations.figures import SlotFigures
from walrelay.telemetry import logs
from walrelay.telemetry.instruments import INSTRUMENTS, RelayView
from walrelay.telemetry.monitor import Monitor, MonitorOptions
from walrelay.telemetry.otlp.exporters import Exporter, resource
from walrelay.telemetry.otlp.metrics import metrics_data
from walrelay.telemetry.otlp.options import OtlpOptions, Signal, disabled
from walrelay.telemetry.overhearing import overheard
from walrelay.telemetry.prometheus import Exposition
from walrelay.wiring import Wiring

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FIGURES = SlotFigures(True, "reserved", "0/5", 0, 10, 20, 0.0, 0, 8192, 0, 0)
WIRING = cast(
    Wiring,
    SimpleNamespace(
        dsn="host=/nowhere",
        slot="s",
        sink=SimpleNamespace(kinds={"": "kafka"}, watch=lambda: None, client_numbers=dict),
    ),
)


class Told:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def saw(self, happening: Happening) -> None:
        if isinstance(happening, Noticed):
            self.texts.append(happening.text)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a busy machine gets to send everything, however long it takes."""
    monkeypatch.setattr("walrelay.telemetry.otlp.sending._PATIENCE", 60.0)


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def monitor(endpoint: str, *signals: Signal, **others: Any) -> Monitor:
    options = OtlpOptions(endpoint, signals=signals or ("metrics", "traces", "logs"), **others)
    return Monitor(MonitorOptions(None, otlp=options))


def turn(number: int) -> Relayed:
    headers: list[tuple[str, bytes | None]] = [("traceparent", PARENT), ("id", b"%d" % number)]
    return Relayed(1, 1, [Message("orders", None, b"12345", headers, 0)], [1], 1, LSN(number), 1.0)


def relay(observers: list[Observer], messages: int = 3) -> None:
    for number in range(1, messages + 1):
        for observer in observers:
            observer.saw(turn(number))
            observer.saw(Settled(0.1, 0.1, LSN(number)))


@pytest.mark.usefixtures("_patient")
def test_metrics_traces_and_logs_reach_a_collector(collector: Collector, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    sending = monitor(collector.endpoint, headers={"Authorization": "secret"})
    with sending.telling(Told(), {}):
        relay([*sending.watch("", WIRING)])
        structlog.get_logger().bind(slot="s").warning("not cleaned up", why="locked", rows=[1, 2], seconds=0.5)
        structlog.get_logger().debug("confirmed")
    assert len(collector.spans) == 3
    assert all(SpanTimes.of(span).end >= SpanTimes.of(span).begin for span in collector.spans)
    (record,) = collector.logs
    assert (record.event_name, value(record.body), record.severity_text) == (
        "walrelay.not_cleaned_up",
        "not cleaned up",
        "WARNING",
    )
    assert attributes(record.attributes) == {"slot": "s", "why": "locked", "rows": ["1", "2"], "seconds": 0.5}
    assert points(collector.numbers["walrelay_records"])[0].as_int == 3
    assert {each["service.name"] for each in collector.resources} == {"walrelay"}
    assert all(each["service.version"] and each["service.instance.id"] for each in collector.resources)
    assert {each["authorization"] for each in collector.headers} == {"secret"}
    assert "not cleaned up" in capsys.readouterr().err, "the line is written as before"


@pytest.mark.usefixtures("_patient")
def test_they_reach_a_collector_by_grpc_as_well() -> None:
    logs.configure("json", "info")
    with collecting_by_grpc() as (collector, endpoint):
        sending = monitor(endpoint, protocol="grpc", headers={"Authorization": "secret"})
        with sending.telling(Told(), {}):
            relay([*sending.watch("", WIRING)])
            structlog.get_logger().bind(slot="s").warning("not cleaned up")
        assert len(collector.spans) == 3
        assert [record.event_name for record in collector.logs] == ["walrelay.not_cleaned_up"]
        assert points(collector.numbers["walrelay_records"])[0].as_int == 3
        assert {each["authorization"] for each in collector.headers} == {"secret"}


def points(metric: Metric) -> list[Any]:
    kind = metric.WhichOneof("data")
    assert kind is not None
    return [*getattr(metric, kind).data_points]


def as_prometheus_names_it(metric: Metric) -> str:
    """By the rules of Prometheus for OTLP: dots, the unit and `_total`."""
    name = metric.name.replace(".", "_")
    unit = {"s": "seconds", "By": "bytes", "1": "ratio"}.get(metric.unit, "")
    assert metric.unit in ("s", "By") or re.fullmatch(r"\{[a-z_]+\}", metric.unit), f"{name}: {metric.unit}"
    if unit and unit not in name.split("_"):
        name += f"_{unit}"
    if metric.WhichOneof("data") == "sum" and metric.sum.is_monotonic:
        name = f"{name.removesuffix('_total')}_total"
    return name


def busy() -> RelayView:
    """A view in which each instrument has a value."""
    numbers = RelayNumbers("s")
    numbers.saw(turn(1))
    numbers.saw(Retrying("away", 1, 0.1, False, "BrokerAway"))
    numbers.cleaned_at = 1.0
    numbers.dead_letters["waiting", "refused"] += 1
    numbers.drops["rule"] += 1
    numbers.untold["traces"] += 1
    numbers.latency.add(0.1)
    return RelayView("r", numbers, {"": "kafka"}, FIGURES, True)


def test_the_names_labels_and_values_are_those_that_prometheus_reads(collector: Collector) -> None:
    view = busy()
    exporter = Exporter("metrics", OtlpOptions(collector.endpoint))
    assert exporter.send(metrics_data([view], resource())) == ""
    exporter.close()
    (exported,) = collector.metrics
    text, _ = Exposition(lambda: [view], {}).text("")
    scraped: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            scraped.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    assert {as_prometheus_names_it(metric) for metric in exported} == {
        each.name for each in INSTRUMENTS if has(each.name, scraped)
    }
    for metric in exported:
        name = as_prometheus_names_it(metric)
        for point in points(metric):
            labels = frozenset((key.replace(".", "_"), text) for key, text in attributes(point.attributes).items())
            if metric.WhichOneof("data") == "histogram":
                assert (
                    metric.histogram.aggregation_temporality
                    == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
                )
                assert scraped[f"{name}_count"][labels] == point.count == sum(point.bucket_counts)
                assert scraped[f"{name}_sum"][labels] == point.sum
            else:
                assert scraped[name][labels] == (point.as_int or point.as_double)


def has(name: str, scraped: dict[str, Any]) -> bool:
    return name in scraped or f"{name}_count" in scraped


@pytest.mark.usefixtures("_patient")
def test_only_what_is_wanted_is_sent(collector: Collector) -> None:
    logs.configure("json", "info")
    sending = monitor(collector.endpoint, "traces")
    with sending.telling(Told(), {}):
        relay([*sending.watch("", WIRING)])
        structlog.get_logger().warning("noticed")
    assert (len(collector.spans), collector.metrics, collector.logs) == (3, [], [])


@pytest.mark.parametrize("trouble", ["dead", "slow", "refusing", "nonsense", "unavailable"])
def test_no_collector_troubles_the_relay(collector: Collector, trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    endpoint, told = collector.endpoint, Told()
    match trouble:
        case "dead":
            endpoint = f"http://127.0.0.1:{closed_port()}"
        case "slow":
            collector.answers.clear()
        case "refusing":
            collector.status = 400
        case "nonsense":
            collector.status, collector.body = 599, b"\0" * 1000
        case "unavailable":
            collector.status = 503
    sending = monitor(endpoint, interval=0.05)
    with ExitStack() as stack:
        stack.enter_context(sending.telling(told, {}))
        numbers, observer = sending.watch("", WIRING)
        assert isinstance(numbers, RelayNumbers)
        before = monotonic()
        relay([numbers, observer], 10_000)
        took = monotonic() - before
        wait_until(lambda: numbers.untold["traces"] > 0, 60, "what has no room to be counted")
        wait_until(lambda: any("does not take traces" in text for text in told.texts), 60, "somebody to be told")
        leaving = monotonic()
    assert took < 30
    assert monotonic() - leaving < 30, "a stop waits for two seconds at most"
    assert all(text.startswith("the OpenTelemetry collector") for text in told.texts)
    assert len(told.texts) <= 3, "each signal once"
    assert numbers.messages == 10_000


@pytest.mark.usefixtures("_patient")
def test_an_error_in_any_of_it_is_told_once_and_the_others_go_on(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.configure("json", "info")
    told, sending = Told(), monitor(collector.endpoint)
    with sending.telling(told, {}):
        numbers, traces = sending.watch("", WIRING)
        monkeypatch.setattr(type(traces), "_relayed", lambda *_: 1 / 0)
        monkeypatch.setattr("walrelay.telemetry.otlp.sending.log_records", lambda *_: 1 / 0)
        monkeypatch.setattr("walrelay.telemetry.otlp.sending.metrics_data", lambda *_: 1 / 0)
        relay([Observers(told, numbers, traces)])
        structlog.get_logger().warning("noticed")
        assert isinstance(numbers, RelayNumbers)
        assert numbers.messages == 3
    assert [text for text in told.texts if "TraceObserver" in text] == [
        "TraceObserver failed: ZeroDivisionError: division by zero"
    ]
    assert sum("ZeroDivisionError" in text for text in told.texts) == 3


def test_an_error_of_who_listens_to_the_log_does_not_keep_the_line_back(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    with overheard(lambda *_: 1 / 0):
        structlog.get_logger().warning("noticed")
    assert "noticed" in capsys.readouterr().err


def test_the_environment_says_who_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resource().attributes["service.name"] == "walrelay"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.instance.id=one")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop-relay")
    said = resource().attributes
    assert [said[name] for name in ("service.name", "service.instance.id", "deployment.environment.name")] == [
        "shop-relay",
        "one",
        "test",
    ]


def test_the_environment_can_name_the_place_of_a_signal_and_compress(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{collector.endpoint}/v1/metrics")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    exporter = Exporter("metrics", OtlpOptions(f"http://127.0.0.1:{closed_port()}"))
    assert exporter.send(metrics_data([busy()], resource())) == ""
    exporter.close()
    assert collector.numbers


def test_the_environment_can_turn_everything_off() -> None:
    assert [disabled(env) for env in ({"OTEL_SDK_DISABLED": "TRUE"}, {"OTEL_SDK_DISABLED": "false"}, {})] == [
        True,
        False,
        False,
    ]


def test_a_package_that_is_missing_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("walrelay.telemetry.otlp.exporters.import_module", missing)
    with pytest.raises(Fatal) as told:
        Exporter("traces", OtlpOptions("http://localhost:4317", "grpc"))
    assert told.value.hint == "pip install 'walrelay[otel-grpc]'"


def test_what_the_library_refuses_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER", "nobody")
    with pytest.raises(Fatal, match="traces cannot be exported by OTLP: Requested component 'nobody' not found"):
        Exporter("traces", OtlpOptions("http://localhost:4318"))
