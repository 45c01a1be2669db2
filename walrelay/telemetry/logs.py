"""Structured logs on stderr: constant phrases with fields; lines for a terminal, JSON for everything else."""

import fcntl
import logging
import os
import re
import sys
from collections import Counter
from contextlib import suppress
from tempfile import mkstemp
from time import monotonic
from typing import Any, TextIO, assert_never, cast

from walrelay.dead_letter import DeadLetter
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import Skipped
from walrelay.observe import (
    Acknowledged,
    Backfilled,
    Backfilling,
    Behind,
    CleanedUp,
    Confirmed,
    DeadLettered,
    Dropped,
    EndedFatally,
    GivingUp,
    Happening,
    Leads,
    LeftAtOnce,
    NotCleanedUp,
    Noticed,
    NotMarked,
    Paused,
    PauseOver,
    Relayed,
    Resumed,
    Retrying,
    Settled,
    Stalled,
    StandingBy,
    Stopped,
    Stopping,
    Streaming,
    TakingOver,
    Turned,
    WaitedForRegistry,
    WaitedForRoom,
)
from walrelay.observe.processes import (
    DatabaseFound,
    DatabaseGone,
    Listening,
    NotStarted,
    ProcessDied,
    ProcessLost,
    ProcessStarted,
)
from walrelay.telemetry.overhearing import OVERHEARD

# structlog imports rich where it is installed, for tracebacks that nobody sees: a fifth of the time in which `run`
# starts.
_rich_is_hidden = "rich" not in sys.modules
if _rich_is_hidden:
    sys.modules["rich"] = None  # type: ignore[assignment]
try:
    import structlog
finally:
    if _rich_is_hidden:
        del sys.modules["rich"]

_EVERY = 10.0  # seconds between two lines about progress, or about the same notice
_MINUTE = 60.0  # seconds between two lines of librdkafka's about the same

_ATTEMPT = re.compile(r"Connect to |Connection setup|Disconnected|Failed to resolve|timed out|in state ")
_VARYING = re.compile(r"\d+|\(.*\)$")


class _WholeLines:
    """stderr of several processes, one line at a time: a pipe keeps no more than 4,096 bytes together."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._line = stream, ""
        # Each process locks it for itself, and one that dies lets it go. There may be no directory to write in.
        self._lock = os.memfd_create("log") if hasattr(os, "memfd_create") else mkstemp()[0]

    def write(self, text: str) -> None:
        self._line += text

    def flush(self) -> None:
        line, self._line = self._line, ""
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            self._stream.write(line)
            self._stream.flush()
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)


def configure(form: str, level: str, *, shared: bool = False) -> None:
    """`form`: auto, console or json; `level`: the least important that is logged; `shared`: by processes that this one
    forks.
    """
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    render: Any = structlog.dev.ConsoleRenderer(pad_event_to=0) if console else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            OVERHEARD,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S.%f" if console else "iso", utc=not console),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _WholeLines(sys.stderr)) if shared else sys.stderr),
    )
    logging.lastResort = None  # other libraries say what our errors say, with tracebacks
    for name, handler in (("walrelay.kafka", _Librdkafka()), ("walrelay.sinks", _OfSinks())):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    logging.getLogger("walrelay.sinks").setLevel(level.upper())  # so that a sink can ask what will be seen


def name_relay(name: str) -> None:
    """What this thread logs from now on is of the relay of that name, the client library's words too."""
    structlog.contextvars.bind_contextvars(relay=name)


def _for_people() -> bool:
    return isinstance(structlog.get_config()["processors"][-1], structlog.dev.ConsoleRenderer)


class _OfSinks(logging.Handler):
    """What sinks say through Python's logging becomes an event: with its `fields`, or with its text alone. Fields are
    of messages, and may hold what moves a terminal's cursor: people see it escaped. JSON escapes it anyway.
    """

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = getattr(record, "fields", {})
        if _for_people():
            fields = {name: _printable(value) for name, value in fields.items()}
        structlog.get_logger().bind(**fields).log(record.levelno, record.getMessage())


def _printable(value: object) -> object:
    return repr(value) if isinstance(value, str) and not value.isprintable() else value


class _Librdkafka(logging.Handler):
    """What the Kafka sink and its client library say through Python's logging becomes an event, so that stderr holds
    nothing but events. The library tells of each attempt to connect, several times a second: the sink says "broker
    away" instead, and anything else that is repeated is said once a minute.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}
        self._times: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):  # raised in the client's callback, a log that is gone would end the run
            self._tell(record)

    def _tell(self, record: logging.LogRecord) -> None:
        log, text = structlog.get_logger(), record.getMessage()
        if (fields := getattr(record, "fields", None)) is not None:
            log.log(record.levelno, text, **fields)
        elif record.levelno < logging.WARNING or (text.startswith("FAIL ") and _ATTEMPT.search(text)):
            log.debug("librdkafka", text=text)
        else:
            self._say_once_a_minute(record.levelno, text)

    def _say_once_a_minute(self, level: int, text: str) -> None:
        kind = str(structlog.contextvars.get_contextvars().get("relay", "")) + _VARYING.sub("", text)
        if monotonic() - self._said.get(kind, -_MINUTE) < _MINUTE:
            self._times[kind] += 1
            return
        if max(len(self._said), len(self._times)) > 100:
            self._said.clear()
            self._times.clear()
        self._said[kind] = monotonic()
        repeated = self._times.pop(kind, 0)
        structlog.get_logger().log(level, "librdkafka", text=text, **({"repeated": repeated} if repeated else {}))


class LogObserver:
    """Logs what happens to a relay; progress at most every ten seconds."""

    def __init__(self, **fields: str) -> None:
        self._log = structlog.get_logger().bind(**fields)
        self._records = self._messages = 0
        self._told = monotonic()
        self._notices: dict[str, float] = {}
        self._drops: dict[str, tuple[int, str, float]] = {}  # by rule: records since it was told, the last, and when

    def saw(self, happening: Happening) -> None:
        log = self._log
        match happening:
            case Relayed():  # first, and without patterns of their fields, because these two happen all the time
                self._records += happening.records
                self._messages += happening.messages
            case Turned() | Acknowledged() | Settled() | Behind() | WaitedForRoom() | WaitedForRegistry():
                pass  # numbers, not events
            case Confirmed():
                self._confirmed(happening.lsn, happening.unsettled)
            case StandingBy(slot):
                log.info("standing by", slot=slot)
            case TakingOver(slot, why):
                log.info("taking over", slot=slot, why=why)
            case GivingUp(slot, why):
                log.info("giving up", slot=slot, why=why)
            case Streaming(slot, start, plugin):
                log.info("streaming", slot=slot, start=str(start), plugin=plugin)
            case Stalled(seconds, unsettled, why, away):
                why = why or "nothing was acknowledged"
                log.warning("stalled", seconds=round(max(seconds, away), 1), unsettled=unsettled, why=why)
            case Resumed(seconds):
                log.info("resumed", after_seconds=round(seconds, 1))
            case Skipped(lsn, why):
                log.warning("skipped", lsn=str(lsn), why=why)
            case DeadLettered(letter):
                self._dead_lettered(letter)
            case Dropped(rule, position):
                self._dropped(rule, position)
            case Noticed(text):
                self._noticed(text)
            case Retrying(cause, attempt, pause, lasting) if not happening.again:
                tell = log.error if lasting else log.warning
                tell("retrying", cause=cause, attempt=attempt, pause=round(pause, 2))
            case CleanedUp(rows, dropped, made, seconds):
                tell = log.info if rows or dropped or made else log.debug
                tell("cleaned up", rows=rows, dropped=[*dropped], made=[*made], seconds=round(seconds, 1))
            case NotCleanedUp(why):
                log.warning("not cleaned up", why=why)
            case NotMarked(why):
                log.warning("not marked", why=why)
            case Stopping(unsettled, seconds):
                log.info("stopping", unsettled=unsettled, within_seconds=round(seconds, 1))
            case Paused(slot, why, cost):
                log.warning("paused", slot=slot, why=why, cost=cost)
            case PauseOver(why, seconds):
                log.info("pause over", why=why, after_seconds=round(seconds, 1))
            case LeftAtOnce():
                log.warning("left at once", consequence="what was not confirmed will be published again")
            case Stopped(confirmed, unsettled):
                for rule in self._drops:
                    self._tell_drops(rule)
                log.info("stopped", confirmed=str(confirmed), unsettled=unsettled)
            case EndedFatally(error, others):
                self._ended(error, {"others_running": others} if others else {})
            case Listening(host, port):
                log.info("listening", host=host, port=port)
            case ProcessStarted(number, pid, relays):
                log.info("process started", process=number, pid=pid, relays=[*relays])
            case ProcessDied(number, pid, relays, code, pause):
                how = {"signal": -code} if code < 0 else {"exit_code": code}
                log.error("process died", process=number, pid=pid, relays=[*relays], **how, again_in=round(pause, 2))
            case ProcessLost(number, relays, others):
                text = f"each relay of process {number} has ended in an error: {', '.join(relays)}"
                hint = "the log has the error of each as `fatal`; remove the causes and restart"
                self._ended(Fatal(text, hint=hint, page="ended"), {"process": number, "others_running": others})
            case DatabaseFound():
                log.info("database found")
            case DatabaseGone():
                log.warning("database gone", consequence="its slot stays, and keeps WAL until it is dropped")
            case NotStarted(cause, again_in):
                log.error("not started", cause=cause, again_in=round(again_in, 1))
            case Retrying():
                pass  # the same was said lately
            case Leads():
                pass  # what it does then is told
            case Backfilling() | Backfilled():
                pass  # a command's, which draws a bar
            case _:
                assert_never(happening)

    def _confirmed(self, lsn: LSN, unsettled: int) -> None:
        self._log.debug("confirmed", lsn=str(lsn), unsettled=unsettled)
        if self._records and monotonic() - self._told >= _EVERY:
            self._log.info(
                "relayed", records=self._records, messages=self._messages, confirmed=str(lsn), unsettled=unsettled
            )
            self._records = self._messages = 0
            self._told = monotonic()

    def _dead_lettered(self, letter: DeadLetter) -> None:
        origin = letter.origin
        self._log.warning(
            "set aside",
            status=letter.status,
            id=origin.record_id,
            position=origin.position,
            topic=letter.topic,
            error=letter.error,
            reason=letter.reason,
        )

    def _dropped(self, rule: str, position: str) -> None:
        """A rule may drop most of what comes: it is counted, and told at once, then every ten seconds."""
        count, _, told = self._drops.get(rule, (0, "", -_EVERY))
        self._drops[rule] = count + 1, position, told
        if monotonic() - told >= _EVERY:
            self._tell_drops(rule)

    def _tell_drops(self, rule: str) -> None:
        records, last, _ = self._drops[rule]
        if records:
            self._log.info("dropped by a rule", rule=rule, records=records, last=last)
            self._drops[rule] = 0, last, monotonic()

    def _noticed(self, text: str) -> None:
        """A plugin may flood: the same text is logged once in ten seconds."""
        if monotonic() - self._notices.get(text, -_EVERY) >= _EVERY:
            if len(self._notices) > 100:
                self._notices.clear()
            self._notices[text] = monotonic()
            self._log.warning("noticed", text=text)

    def _ended(self, error: Fatal, fields: dict[str, int]) -> None:
        """A person gets lines of their own, with a command that can be pasted."""
        page = f"walrelay docs runbook#{error.page}"
        if not _for_people():
            self._log.error("fatal", error=str(error), hint=error.hint, page=page, **fields)
            return
        self._log.error("fatal", **fields)
        lines = [f"error: {error}", *([f"hint: {error.hint}"] if error.hint else []), f"page: {page}"]
        print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201
