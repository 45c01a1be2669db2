"""A collector of OpenTelemetry in the test process: OTLP over HTTP, as protobuf, and by gRPC."""

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """`status` and `body` are what it answers, once `answers` is set; it keeps what it took."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.metrics: list[list[Metric]] = []
        self.logs: list[LogRecord] = []
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.requests, self.status, self.body = 0, 200, b""
        self.answers = Event()
        self.answers.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def numbers(self) -> dict[str, Metric]:
        """Those of the last export, by name."""
        return {metric.name: metric for metric in self.metrics[-1]} if self.metrics else {}

    def take(self, path: str, body: bytes) -> None:
        match path:
            case "/v1/traces":
                for each in ExportTraceServiceRequest.FromString(body).resource_spans:
                    self._of(each.resource)
                    self.spans += [span for scope in each.scope_spans for span in scope.spans]
            case "/v1/metrics":
                for measured in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    self._of(measured.resource)
                    self.metrics.append([metric for scope in measured.scope_metrics for metric in scope.metrics])
            case "/v1/logs":
                for logged in ExportLogsServiceRequest.FromString(body).resource_logs:
                    self._of(logged.resource)
                    self.logs += [record for scope in logged.scope_logs for record in scope.log_records]

    def _of(self, resource: Resource) -> None:
        self.resources.append(attributes(resource.attributes))

    def serve(self) -> None:
        self._server.serve_forever(0.05)

    def stop(self) -> None:
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()


def attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: value(pair.value) for pair in pairs if isinstance(pair, KeyValue)}


def value(wrapped: AnyValue) -> Any:
    kind = wrapped.WhichOneof("value")
    found = None if kind is None else getattr(wrapped, kind)
    return [value(each) for each in found.values] if kind == "array_value" and found is not None else found


class SpanTimes(NamedTuple):
    """Nanoseconds since 1970. `events`: by name."""

    begin: int
    events: dict[str, int]
    end: int

    @staticmethod
    def of(span: Span) -> "SpanTimes":
        events = {event.name: event.time_unix_nano for event in span.events}
        return SpanTimes(span.start_time_unix_nano, events, span.end_time_unix_nano)


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    thread = Thread(target=collector.serve, name="collector", daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.stop()
        thread.join()


_BY_GRPC = {
    "/v1/traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "/v1/metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
    "/v1/logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}


@contextmanager
def collecting_by_grpc() -> Iterator[tuple[Collector, str]]:
    """A collector, and its endpoint for gRPC."""
    with collecting() as collector, ThreadPoolExecutor(2) as workers:
        server = grpc.server(workers)

        def answering(path: str) -> Any:
            def answer(body: bytes, context: Any) -> bytes:
                collector.headers.append({pair.key: pair.value for pair in context.invocation_metadata()})
                collector.take(path, body)
                return b""  # a response with nothing in it

            return grpc.unary_unary_rpc_method_handler(answer)

        services = [
            grpc.method_handlers_generic_handler(service, {"Export": answering(path)})
            for path, service in _BY_GRPC.items()
        ]
        server.add_generic_rpc_handlers(services)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield collector, f"http://127.0.0.1:{port}"
        finally:
            server.stop(None).wait()


def _handler(collector: Collector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.requests += 1
            collector.headers.append({name.lower(): text for name, text in self.headers.items()})
            collector.answers.wait(60)
            if collector.status == 200:
                compressed = self.headers.get("Content-Encoding") == "gzip"
                collector.take(self.path, gzip.decompress(body) if compressed else body)
            self.send_response(collector.status)
            self.send_header("Content-Length", str(len(collector.body)))
            self.end_headers()
            self.wfile.write(collector.body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
