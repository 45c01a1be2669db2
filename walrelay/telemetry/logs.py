"""Structured logs on stderr: constant phrases with fields; lines for a terminal, JSON for everything else."""

import logging
import sys
from collections.abc import Sequence
from time import monotonic
from typing import Any

import structlog

from walrelay.errors import Fatal
from walrelay.letter import Letter
from walrelay.lsn import LSN
from walrelay.observe import Observer

_EVERY = 10.0  # seconds between two lines about progress, or about the same notice


def configure(form: str, level: str) -> None:
    """`form`: auto, console or json; `level`: the least important that is logged."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    render: Any = structlog.dev.ConsoleRenderer(pad_event_to=0) if console else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S.%f" if console else "iso", utc=not console),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    kafka = logging.getLogger("walrelay.kafka")
    kafka.handlers = [_Librdkafka()]
    kafka.propagate = False


class _Librdkafka(logging.Handler):
    """What librdkafka says through Python's logging becomes an event, so that stderr holds nothing but events."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().log(record.levelno, "librdkafka", text=record.getMessage())


class LogObserver(Observer):
    """Logs what happens to a relay; progress at most every ten seconds."""

    def __init__(self, **fields: str) -> None:
        self._log = structlog.get_logger().bind(**fields)
        self._records = self._messages = 0
        self._told = monotonic()
        self._notices: dict[str, float] = {}

    def standing_by(self, slot: str) -> None:
        self._log.info("standing by", slot=slot)

    def streaming(self, slot: str, start: LSN, plugin: str) -> None:
        self._log.info("streaming", slot=slot, start=str(start), plugin=plugin)

    def read(self, records: int, messages: int) -> None:
        self._records += records
        self._messages += messages

    def confirmed(self, lsn: LSN, unsettled: int) -> None:
        self._log.debug("confirmed", lsn=str(lsn), unsettled=unsettled)
        if self._records and monotonic() - self._told >= _EVERY:
            self._log.info(
                "relayed", records=self._records, messages=self._messages, confirmed=str(lsn), unsettled=unsettled
            )
            self._records = self._messages = 0
            self._told = monotonic()

    def stalled(self, seconds: float, unsettled: int, why: str) -> None:
        self._log.warning("stalled", seconds=round(seconds, 1), unsettled=unsettled, why=why or "no receipt came")

    def resumed(self, seconds: float) -> None:
        self._log.info("resumed", after_seconds=round(seconds, 1))

    def skipped(self, lsn: LSN, why: str) -> None:
        self._log.warning("skipped", lsn=str(lsn), why=why)

    def set_aside(self, letter: Letter) -> None:
        place = letter.place
        self._log.warning(
            "set aside",
            status=letter.status,
            id=place.record_id,
            position=place.position,
            topic=letter.topic,
            error=letter.error,
            reason=letter.reason,
        )

    def noticed(self, text: str) -> None:
        """A plugin may flood: the same text is logged once in ten seconds."""
        if monotonic() - self._notices.get(text, -_EVERY) >= _EVERY:
            if len(self._notices) > 100:
                self._notices.clear()
            self._notices[text] = monotonic()
            self._log.warning("noticed", text=text)

    def retrying(self, cause: str, attempt: int, pause: float) -> None:
        self._log.warning("retrying", cause=cause, attempt=attempt, pause=round(pause, 2))

    def cleaned(self, rows: int, dropped: Sequence[str], made: Sequence[str], seconds: float) -> None:
        self._log.info("cleaned up", rows=rows, dropped=[*dropped], made=[*made], seconds=round(seconds, 1))

    def not_cleaned(self, why: str) -> None:
        self._log.warning("not cleaned up", why=why)

    def stopping(self, unsettled: int) -> None:
        self._log.info("stopping", unsettled=unsettled)

    def stopped(self, confirmed: LSN, unsettled: int) -> None:
        self._log.info("stopped", confirmed=str(confirmed), unsettled=unsettled)

    def failed(self, error: Fatal) -> None:
        """The process ends because of `error`."""
        self._log.error("fatal", error=str(error), hint=error.hint)
