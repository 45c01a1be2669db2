"""The events of the log as OTLP has them."""

from collections.abc import Mapping, Sequence
from time import time_ns
from typing import Any, NamedTuple

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource

from walrelay.telemetry.otlp.metrics import SCOPE

_SEVERITIES = {
    "debug": SeverityNumber.DEBUG,
    "info": SeverityNumber.INFO,
    "warning": SeverityNumber.WARN,
    "error": SeverityNumber.ERROR,
    "critical": SeverityNumber.FATAL,
}
_PLAIN = str | bool | int | float


class LoggedEvent(NamedTuple):
    """An event of the log as it was logged, at `at` (nanoseconds since 1970)."""

    level: str
    fields: Mapping[str, Any]
    at: int

    @staticmethod
    def now(level: str, fields: Mapping[str, Any]) -> "LoggedEvent":
        return LoggedEvent(level, fields, time_ns())


def log_records(events: Sequence[LoggedEvent], resource: Resource) -> list[ReadableLogRecord]:
    return [ReadableLogRecord(_record(event), resource, SCOPE) for event in events]


def _record(event: LoggedEvent) -> LogRecord:
    fields = dict(event.fields)
    text = str(fields.pop("event", ""))
    return LogRecord(
        timestamp=event.at,
        observed_timestamp=event.at,
        severity_number=_SEVERITIES.get(event.level, SeverityNumber.UNSPECIFIED),
        severity_text=event.level.upper(),
        body=text,
        event_name=f"walrelay.{text.replace(' ', '_')}",
        attributes={name: _attribute(value) for name, value in fields.items() if value is not None},
    )


def _attribute(value: object) -> Any:
    if isinstance(value, _PLAIN):
        return value
    return [str(each) for each in value] if isinstance(value, list | tuple) else str(value)
