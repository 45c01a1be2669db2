"""The settings of what watches the relays of a process."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from walrelay.config.values import Seconds, Section

_LAST_PORT = 65_535
_RESERVED = "_bucket", "_count", "_sum", "_created", "_info"  # of samples that one metric has
_METRIC = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,127}")


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT or not host.strip("[]"):
        raise ValueError(f"{text!r} is no address: write host:port, as in 127.0.0.1:9464")
    return text


def _collector(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if text and (parts.scheme not in ("http", "https") or not parts.hostname or port == 0):
        raise ValueError("is no URL of a collector: write http://host:4318")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("holds more than scheme, host, port and path: a password goes into otlp.headers")
    return text


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


ListenAddress = Annotated[str, AfterValidator(_address)]


def _stem(name: str) -> str:
    """What two metrics may not share: Prometheus adds `_total` to it."""
    return name.removesuffix("_total")


def _aliases(aliases: dict[str, str]) -> dict[str, str]:
    if aliases:
        from walrelay.telemetry.instruments import INSTRUMENTS  # which a file without aliases does not need

        known = {each.name for each in INSTRUMENTS}
        for alias, metric in aliases.items():
            if metric not in known:
                raise ValueError(f"{metric!r} is no metric of walrelay's; `walrelay docs metrics` has all of them")
            others = known | (aliases.keys() - {alias})
            if not _METRIC.fullmatch(alias) or _stem(alias) in map(_stem, others) or alias.endswith(_RESERVED):
                raise ValueError(f"{alias!r} cannot be the name of another metric")
            if metric.endswith("_total") != alias.endswith("_total"):
                raise ValueError(f"{alias!r} must end in _total if, and only if, {metric!r} does: it is a counter then")
    return aliases


class HttpSettings(Section):
    """Where this process answers whoever watches it: /metrics for Prometheus, /healthz, /readyz and /startupz. What
    they tell is no secret, but they ask for no password either: listen on other addresses than loopback only where the
    network is trusted."""

    listen: ListenAddress | None = None
    """Host and port, as in `127.0.0.1:9464`; `0.0.0.0:9464` in a container. null: nowhere. With `--processes` each
    process takes the next port."""

    @property
    def address(self) -> tuple[str, int] | None:
        return None if self.listen is None else host_and_port(self.listen)


class MetricsSettings(Section):
    """What /metrics shows; `walrelay docs metrics` has all names."""

    topics: Annotated[int, Field(ge=1, le=10_000)] = 100
    """How many topics of a relay have numbers of their own; all further ones share `(other)`."""

    aliases: Annotated[dict[str, str], AfterValidator(_aliases)] = Field(default_factory=dict)
    """Further names for metrics, as in `outbox_backlog: walrelay_lag_seconds`: for dashboards that exist."""


class HealthSettings(Section):
    """When a relay counts as stalled."""

    stall_after: Seconds = 60
    """For how long nothing may become durable while there is something to publish, or a sink be away, before /readyz is
    red. Counted from the relay's last progress.
    """


class OtlpSettings(Section):
    """Metrics, traces and logs for an OpenTelemetry collector, by OTLP: `walrelay docs tracing`. What the OTEL_*
    variables of the environment say beside the endpoint counts too: resource, timeout, compression, certificates."""

    endpoint: Annotated[str, AfterValidator(_collector)] | None = None
    """As in `http://localhost:4318`, to which /v1/traces is added, and so on; with grpc `http://localhost:4317`. null
    or empty: nothing is sent. `${OTEL_EXPORTER_OTLP_ENDPOINT:-}` takes it from the environment."""

    protocol: Literal["http/protobuf", "grpc"] = "http/protobuf"
    """grpc needs `pip install 'walrelay[otel-grpc]'`."""

    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Sent with each request, as in `Authorization: file:/run/secrets/collector`."""

    metrics: bool = True
    """Whether the metrics of `walrelay docs metrics` are sent."""

    traces: bool = True
    """Whether sampled messages get a span."""

    logs: bool = True
    """Whether the events of the log are sent, those that `log.level` lets through."""

    sample: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Which share of the messages without a `traceparent` get a span. Where the row has one, its sampled flag
    decides."""

    interval: Annotated[Seconds, Field(le=3600)] = 60
    """How often the metrics are sent."""
