"""Makes a relay from settings: its wiring, and what its runs open. The only module that names concrete classes."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import randbits
from time import time_ns
from typing import Protocol
from uuid import UUID

from walrelay.config import Databases, Settings
from walrelay.control.database import Controls
from walrelay.control.pausing import LeaderPause
from walrelay.control.relay import RelayControl
from walrelay.dead_letters import DeadLetterTable
from walrelay.dead_letters.elsewhere import letters_elsewhere
from walrelay.dead_letters.republishing import OpenLetter, Republishing, open_letters
from walrelay.dead_letters.store import DeadLetterTableWriter, await_letters, readable, skips
from walrelay.dead_letters.wrapping import DeadLettering
from walrelay.decode.contract import Decoder
from walrelay.errors import NotConnected
from walrelay.model import RelayPosition, System
from walrelay.observe import Noticed, Observer, Observers, StandingBy, notices
from walrelay.operations import doctor
from walrelay.operations.cleanup import Marking, Retention
from walrelay.operations.status import Status
from walrelay.operations.status import status as slot_status
from walrelay.postgres.catalog import Catalog
from walrelay.publish import AnySinkHandle, ExactlyOnceSink, Sink, SinkHandle, SinkHandles, load
from walrelay.relay import run
from walrelay.relay.contract import NeverPaused, Pausing
from walrelay.relay.drops import observed
from walrelay.relay.expiry import expiry_watched
from walrelay.route import Routing
from walrelay.route.rules import Encoder, Rules
from walrelay.source.contract import Positions
from walrelay.source.leadership import lead, lead_at_once
from walrelay.source.slot_source import SlotSource
from walrelay.source.stream import Stream, Timing
from walrelay.supervise import Backoff, Stop
from walrelay.table.functions import UNPUBLISHED, function_exists
from walrelay.telemetry.otlp.options import OtlpOptions, Signal, disabled
from walrelay.telemetry.standstill import standstill_reported
from walrelay.wiring import Limits, Marks, Policy, PositionPlace, SlotOptions, Wiring, Writers, positions


def wiring(settings: Settings) -> Wiring:
    """To be made once in a process: its sinks remember what they learned."""
    layout, debezium = settings.layout, settings.debezium
    marks = settings.outbox.mark_published
    source, refusals, exactly_once = settings.source, settings.refusals, settings.delivery == "exactly_once"
    return Wiring(
        dsn=source.dsn.get_secret_value(),
        slot=source.slot,
        plugin=source.plugin,
        publication=source.publication if source.plugin == "pgoutput" else None,
        outbox=layout,
        rules=Rules(
            settings.route.topic if debezium is None else debezium.options.template,
            settings.reserved_topics,
            settings.rules,
            {column: role for role, column in layout.columns._asdict().items() if column is not None},
            settings.route.envelope.envelope,
            None if debezium is None else debezium.options,
            _encoder(settings),
        ),
        sink=_sink(settings),
        exactly_once=exactly_once,
        streaming=SlotOptions(
            binary=source.binary,
            wal2json_format=source.wal2json_format,
            failover=source.failover,
            timing=Timing(source.confirm_interval, source.receive_timeout),
            check_interval=source.publication_check_interval,
        ),
        writers=Writers(settings.outbox.messages.writers, settings.outbox.max_message_bytes),
        position=PositionPlace("topic" if exactly_once else settings.position.keep, Path(settings.position.path)),
        policy=Policy(
            default=refusals.policy,
            topics=tuple(refusals.topics.items()),
            attempts=refusals.attempts,
            block_key=refusals.block_key,
            table=refusals.dead_letters != "topic",
            topic=refusals.dead_letter_topic if refusals.dead_letters != "table" else None,
        ),
        limits=Limits(source.pause_limit, settings.shutdown_timeout),
        backoff=Backoff(settings.retry.min_pause, settings.retry.max_pause),
        retention=settings.retention,
        run_id=None if debezium is None else _run_id(),
        marks=None if marks is None else Marks(marks.where, marks.set),
        events=settings.events.options,
    )


def _sink(settings: Settings) -> AnySinkHandle:
    handles = {
        name: SinkHandle(each.kind, each.settings, load(each.kind)) for name, each in settings.named_sinks.items()
    }
    return SinkHandles(handles) if settings.sinks else handles[""]


def _encoder(settings: Settings) -> Encoder | None:
    """Importing it takes a while, so only a relay that names a schema does."""
    if settings.schema_registry is None or not any(rule.schema for rule in settings.rules):
        return None
    from walrelay.schemas import SchemaRegistry

    return SchemaRegistry(settings.schema_registry.client_options)


def _run_id() -> str:
    """A UUID of version 7, which is what Debezium gives each run of a connector."""
    moment, chance = time_ns() // 1_000_000, randbits(74)
    return str(UUID(int=moment << 80 | 7 << 76 | chance >> 62 << 64 | 2 << 62 | chance & (1 << 62) - 1))


def status(catalog: Catalog, wiring: Wiring) -> Status:
    """The slot's state, and what the doctor says of it."""
    found = slot_status(catalog, wiring.slot, wiring.publication, messages=wiring.outbox.prefix is not None)
    elsewhere = letters_elsewhere(catalog, wiring.slot, wiring.table)
    return found._replace(problems=(*doctor.told(catalog, wiring, "status"), *elsewhere))


class Watching(Protocol):
    """What a process with relays needs of whoever watches them."""

    def watch(self, name: str, wiring: Wiring) -> Sequence[Observer]:
        """Whom to tell what happens to that relay."""
        ...

    def forget(self, name: str) -> None:
        """That relay is no more."""
        ...


class Unwatched:
    """Implements `Watching` where nobody watches, which costs nothing."""

    def watch(self, name: str, wiring: Wiring) -> Sequence[Observer]:
        return ()

    def forget(self, name: str) -> None:
        pass


@contextmanager
def monitored(settings: Settings | Databases, observer: Observer, process: int = 0) -> Iterator[Watching]:
    """Inside, the process tells whoever watches what happens to its relays. `observer`: the process's own. `process`:
    its number among several.
    """
    with standstill_reported(), _monitored(settings, observer, process) as watching:
        yield watching


@contextmanager
def _monitored(settings: Settings | Databases, observer: Observer, process: int) -> Iterator[Watching]:
    address, otlp = settings.http.address, _otlp(settings)
    if address is None and otlp is None and not os.environ.get("NOTIFY_SOCKET"):
        yield Unwatched()
        return
    from walrelay.telemetry.monitor import Monitor, MonitorOptions  # with an HTTP server, which takes a while to import

    if address is not None and address[1]:
        address = address[0], address[1] + process
    metrics, health = settings.metrics, settings.health
    monitor = Monitor(MonitorOptions(address, metrics.topics, metrics.aliases, health.stall_after, otlp))
    with monitor.telling(observer):
        yield monitor


def _otlp(settings: Settings | Databases) -> OtlpOptions | None:
    given = settings.otlp
    wanted: dict[Signal, bool] = {"metrics": given.metrics, "traces": given.traces, "logs": given.logs}
    signals = [signal for signal, sent in wanted.items() if sent]
    if not given.endpoint or not signals or disabled():
        return None
    headers = {name: value.get_secret_value() for name, value in given.headers.items()}
    return OtlpOptions(given.endpoint, given.protocol, headers, signals, given.sample, given.interval)


def relay_until(
    stop: Stop, wiring: Wiring, observer: Observer, *, from_slot: bool = False, control: RelayControl | None = None
) -> None:
    """Runs the relay until `stop` is set; Fatal when an operator must act.

    `from_slot`: begin at the slot's position, and ignore the relay's own. `control`: the process's, which is among
    those whom `observer` tells; None: this is the only relay of the process, and has no name.
    """
    with Controls() as controls:
        if control is None:
            control = controls.add("", wiring)
            observer = Observers(observer, control, control.activity)
        runs = RelayRuns(wiring, observer, from_slot=from_slot, wakes=stop.fileno(), control=control)
        runs.until(stop.is_set, stop.wait, wiring.backoff)


class RelayRuns(run.Runs):
    """The runs of one process."""

    def __init__(
        self,
        wiring: Wiring,
        observer: Observer,
        *,
        from_slot: bool = False,
        wakes: int | None = None,
        control: RelayControl | None = None,
    ) -> None:
        """`wakes`: a descriptor that becomes readable when the relay is to stop. `control`: None where nobody can pause
        the relay.
        """
        observer = expiry_watched(observer, wiring.sink)
        super().__init__(wiring, LiveFactories(wiring, observer, wakes, control), observer, from_slot=from_slot)


class LiveFactories:
    """Implements `walrelay.relay.contract.Factories`."""

    def __init__(
        self,
        wiring: Wiring,
        observer: Observer,
        wakes: int | None = None,
        control: RelayControl | None = None,
    ) -> None:
        self._wiring, self._observer, self._stop, self._control = wiring, observer, wakes, control
        self._wakes = [*([] if wakes is None else [wakes]), *([] if control is None else [control.asks.fileno()])]
        self._retention, self._marking = Retention(wiring, observer), Marking(wiring, observer)
        self._router: Routing

    def stream(self) -> Stream:
        dsn, slot, timing = self._wiring.dsn, self._wiring.slot, self._wiring.streaming.timing
        return Stream(dsn, slot, self._wiring.publication or "", timing, notices(self._observer), self._wakes)

    def refuse_connection(self, cause: NotConnected) -> None:
        doctor.refuse_connection(self._wiring, cause)

    def leads_at_once(self, stream: Stream) -> bool:
        return lead_at_once(stream.connection, self._wiring.slot)

    def lead(self, stream: Stream, stop: Callable[[], bool]) -> bool:
        slot, observer = self._wiring.slot, self._observer
        return lead(stream.connection, slot, stop, lambda: observer.saw(StandingBy(slot)), notices(observer))

    def catalog(self) -> Catalog:
        return Catalog(self._wiring.dsn, patience=min(10.0, self._wiring.streaming.timing.receive_timeout))

    def examine(self, catalog: Catalog) -> None:
        """Problems that concern only some later row are reported, not refused."""
        with catalog.asking_once():
            doctor.refuse(catalog, self._wiring, "run")
            self._router = self._wiring.router(catalog)
            for finding in doctor.told(catalog, self._wiring, "run"):
                stops = "" if finding.subject == "table" else "the relay will stop at the next row: "
                self._observer.saw(Noticed(f"{stops}{finding.detail} (fix: {finding.fix})"))
        for finding in letters_elsewhere(catalog, self._wiring.slot, self._wiring.table):
            self._observer.saw(Noticed(f"{finding.detail} (fix: {finding.fix})"))
        if self._wiring.outbox.prefix is None and function_exists(catalog, "emit_message"):
            self._observer.saw(Noticed(UNPUBLISHED))

    def source(self, stream: Stream, catalog: Catalog, last: RelayPosition | None) -> tuple[SlotSource, Decoder]:
        wiring = self._wiring
        binary = wiring.binary_suits(catalog)
        source = SlotSource(wiring.reading(binary=binary), stream, catalog, notices(self._observer), last)
        if self._control is not None:
            source.lead, source.report_stop = self._control.lead_name, self._control.report_stop
        await_letters(catalog, source.slot)
        named = skips(catalog, wiring.slot)
        encoding = catalog.server_encoding()
        return source, wiring.decoder(wiring.streamed, encoding=encoding, binary=binary, skips=named)

    def sink(self) -> Sink:
        return self._wiring.sink.open()

    def exactly_once_sink(self, system: System) -> ExactlyOnceSink:
        return self._wiring.sink.open_exactly_once(system, self._wiring.slot, self._wiring.counting)

    def positions(self, catalog: Catalog, source: SlotSource) -> Positions | None:
        return positions(self._wiring, catalog, source.system, source.pid)

    def routing(self) -> Routing:
        return observed(self._router, self._observer)

    def refusals(self) -> DeadLettering:
        wiring, observer = self._wiring, self._observer
        unrouted, place = wiring.rules.unrouted, wiring.sink.place
        return DeadLettering(wiring.policy, self._dead_letters, observer, unrouted, place, self._open_letters)

    def _open_letters(self, catalog: Catalog) -> Iterator[OpenLetter]:
        table = DeadLetterTable(catalog, self._wiring.slot, patience=None)
        return open_letters(table, Republishing(self._wiring.router(catalog).route))

    def _dead_letters(self, catalog: Catalog) -> DeadLetterTableWriter | None:
        if self._wiring.policy.only_stops and not readable(catalog):
            return None
        return DeadLetterTableWriter(catalog, self._wiring.slot, self._wiring.sink.sink_of)

    @contextmanager
    def while_leading(self, catalog: Catalog) -> Iterator[None]:
        with self._retention.while_leading(catalog), self._marking.while_leading():
            yield

    def pausing(self) -> Pausing:
        return NeverPaused() if self._control is None else LeaderPause(self._control, self._observer, self._stop)
