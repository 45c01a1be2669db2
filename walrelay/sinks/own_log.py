"""walrelay's own log, for sinks: an entry with `fields` becomes an event with these fields (`telemetry.logs`)."""

import logging

from walrelay.errors import SinkError

SINK_LOG = logging.getLogger("walrelay.sinks")


def insist_on_info(kind: str) -> None:
    """For a sink whose work is what it logs: Fatal where `log.level` would swallow that."""
    if not SINK_LOG.isEnabledFor(logging.INFO):
        raise SinkError(
            f"the sink {kind} writes to the log with the level info, which log.level leaves out: nobody would see it",
            hint="Set log.level to info.",
            page="listening",
        )


def log_event(event: str, fields: dict[str, object]) -> None:
    """Fatal where the log cannot be written."""
    try:
        SINK_LOG.info(event, extra={"fields": fields})
    except OSError as cause:
        raise SinkError(f"the log cannot be written: {cause.strerror}", page="listening") from cause
