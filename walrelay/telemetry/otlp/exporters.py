"""OpenTelemetry's exporters by protocol, and who it is that exports."""

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from threading import get_ident
from typing import Any
from uuid import uuid4

from opentelemetry.sdk.resources import Resource

from walrelay import __version__
from walrelay.errors import Fatal
from walrelay.telemetry.otlp.options import OtlpOptions, Signal

_CLASSES: dict[Signal, tuple[str, str]] = {
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "logs": ("_log_exporter", "OTLPLogExporter"),
}
_TRANSIENT = "Transient error "  # how the library's text begins that has the reason; what it says last has none


def resource(env: Mapping[str, str] = os.environ) -> Resource:
    """What OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say counts more than our own."""
    mine = {"service.name": "walrelay", "service.version": __version__, "service.instance.id": str(uuid4())}
    theirs = dict(Resource.create().attributes)
    if not env.get("OTEL_SERVICE_NAME") and "service.name" not in env.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        del theirs["service.name"]  # a text of the library's that says that it is unknown
    return Resource({**mine, **theirs})


class Exporter:
    """One signal's exporter of the library, which tries for ten seconds at most (OTEL_EXPORTER_OTLP_TIMEOUT)."""

    def __init__(self, signal: Signal, options: OtlpOptions, env: Mapping[str, str] = os.environ) -> None:
        """Fatal where the library is missing, or refuses the settings."""
        grpc = options.protocol == "grpc"
        module, name = _CLASSES[signal]
        try:
            library = import_module(f"opentelemetry.exporter.otlp.proto.{'grpc' if grpc else 'http'}.{module}")
        except ImportError:
            extra = "otel-grpc" if grpc else "otel"
            text = f"otlp.protocol is {options.protocol}, for which a package of OpenTelemetry's is missing"
            raise Fatal(text, hint=f"pip install 'walrelay[{extra}]'", page="listening") from None
        endpoint = options.endpoint if grpc else f"{options.endpoint.rstrip('/')}/v1/{signal}"
        its_own = env.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
        headers = {header.lower(): value for header, value in options.headers.items()}
        try:
            self._exporter = getattr(library, name)(endpoint=its_own or endpoint, headers=headers or None)
        except Exception as error:  # a certificate that is not there, for instance
            hint = "See `otlp` in the settings, and the OTEL_EXPORTER_OTLP_* variables of the environment."
            raise Fatal(f"{signal} cannot be exported by OTLP: {error}", hint=hint, page="settings") from None

    def send(self, what: Any) -> str:
        """Why it could not be sent, or nothing."""
        with _heard as said:
            result = self._exporter.export(what)
            return "" if result.name == "SUCCESS" else said() or "no reason is known"

    def close(self) -> None:
        """Ends an export that another thread is at."""
        self._exporter.shutdown()


class _Heard(logging.Handler):
    """What the library says through Python's logging while it exports: the only place where it gives reasons."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: dict[int, list[str]] = defaultdict(list)
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False

    def __enter__(self) -> Callable[[], str]:
        said = self._said[get_ident()]
        return lambda: _reason(said)

    def __exit__(self, *_: object) -> None:
        self._said.pop(get_ident(), None)

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread in self._said:
            self._said[record.thread].append(record.getMessage())


def _reason(said: Sequence[str]) -> str:
    for text in said:
        if text.startswith(_TRANSIENT):
            return text.removeprefix(_TRANSIENT).partition(" encountered ")[0]
    return " ".join(said[-1:])


_heard = _Heard()
