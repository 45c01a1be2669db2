"""What a relay's process opens in a simulated world: every call of a stage is a step."""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, cast

from tests.simulation.broker import FakeSink
from tests.simulation.fuse import Fuse, boundary
from tests.simulation.slot import FusedSource, FusedStream, SlotCatalog
from walrelay.dead_letters import DeadLetterTableWriter
from walrelay.dead_letters.wrapping import DeadLettering, DeadLetteringSink
from walrelay.decode.contract import Decoder, OutboxLayout
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.errors import NotConnected, Undecodable
from walrelay.lsn import LSN
from walrelay.model import Event, Message, OutboxRecord, RelayPosition, System, Undecoded
from walrelay.postgres.catalog import Catalog
from walrelay.publish import ExactlyOnceSink, Sink
from walrelay.relay.contract import Pausing
from walrelay.route import Routing
from walrelay.source.contract import Positions
from walrelay.source.slot_source import SlotSource
from walrelay.source.stream import Stream

if TYPE_CHECKING:
    from tests.simulation.world import World

HOLD = 2.0  # seconds that a sink may go on for when its connection is gone


class FusedDecoder(PgoutputDecoder):
    """The real decoder, whose calls are steps; `unreadable` is a payload that it cannot make anything of, `undecoded`
    are those that come as logical messages that are no records.
    """

    def __init__(self, fuse: Fuse, outbox: OutboxLayout, unreadable: bytes | None, undecoded: Set[bytes]) -> None:
        super().__init__(outbox)
        self.fuse = fuse
        self._unreadable, self._undecoded = unreadable, undecoded

    @boundary
    def decode(self, frame: bytes) -> tuple[Event, ...]:
        if self._unreadable is not None and frame.endswith(self._unreadable):
            raise Undecodable("a row that is not an outbox record")
        return tuple(map(self._spoilt, super().decode(frame)))

    def _spoilt(self, event: Event) -> Event:
        if not isinstance(event, OutboxRecord) or event.payload is None or event.payload not in self._undecoded:
            return event
        return Undecoded(*event[:3], "walrelay", event.payload, "no record", "none")


class _DeadLettering(DeadLettering):
    """What was in the relay's hand and became a dead letter is not owed any more."""

    def wrap(self, catalog: Catalog, start: LSN, routing: Routing, sink: Sink) -> tuple[Routing, Sink]:
        routing, wrapped = super().wrap(catalog, start, routing, sink)
        if isinstance(wrapped, DeadLetteringSink):
            publish = wrapped.publish

            def unowed(message: Message, ticket: int) -> bool:
                taken = publish(message, ticket)
                if taken and isinstance(sink, FakeSink):
                    sink.owed = None
                return taken

            wrapped.publish = unowed  # type: ignore[method-assign]
        return routing, wrapped


class Process:
    """Implements `walrelay.relay.contract.Factories` in a world."""

    source_type: type[FusedSource] = FusedSource

    def __init__(self, world: World) -> None:
        self.world = world
        self._sink: FakeSink | None = None
        self._led: FusedStream | None = None  # over which it leads, or did last

    def stream(self) -> Stream:
        self.world.connecting()
        self.world.stream = FusedStream(
            self.world.slot, self.world.fuse, self.world.clock, lambda: self.world.leading()
        )
        return cast(Stream, self.world.stream)

    def refuse_connection(self, cause: NotConnected) -> None:
        raise AssertionError("no connection is refused here")

    def leads_at_once(self, stream: Stream) -> bool:
        return self.world.rival is None and self.world.slot.leads(cast(FusedStream, stream))

    def lead(self, stream: Stream, stop: Callable[[], bool]) -> bool:
        rival, self.world.rival = self.world.rival, None
        assert rival is not None, "nobody else leads"
        rival()
        return self.leads_at_once(stream)

    def catalog(self) -> Catalog:
        return cast(Catalog, SlotCatalog(self.world.slot))

    def examine(self, catalog: Catalog) -> None:
        pass

    def source(self, stream: Stream, catalog: Catalog, last: RelayPosition | None) -> tuple[SlotSource, Decoder]:
        world, fused = self.world, cast(FusedStream, stream)
        self._led = fused
        if self._sink is not None:
            self._sink.owed = None  # what the relay had in its hand comes again
        fused.paused = lambda: self._sink is not None and self._sink.owed is not None
        source = self.source_type(fused, catalog, last, proof=world.alone, begun=lambda begun: world.prepare(begun))
        if world.letters.kept:
            world.letters.await_standbys()
        unreadable = world.unreadable and world.unreadable.payload
        return source, FusedDecoder(world.fuse, world.outbox, unreadable, world.undecoded)

    def sink(self) -> Sink:
        self._sink = self.world.broker.connect(self.world.fuse, self.world.clock)
        self._sink.stored = self._stored
        self.world.sinks.append(self._sink)
        return self._sink

    def exactly_once_sink(self, system: System) -> ExactlyOnceSink:
        return self.world.exactly_once_sink(system)

    def positions(self, catalog: Catalog, source: SlotSource) -> Positions | None:
        return self.world.positions()

    def routing(self) -> Routing:
        return self.world.rules.router()

    def refusals(self) -> DeadLettering:
        return _DeadLettering(
            self.world.policy,
            lambda _: cast(DeadLetterTableWriter, self.world.letters),
            self.world.seen,
            self.world.rules.unrouted,
        )

    def while_leading(self, catalog: Catalog) -> AbstractContextManager[None]:
        return nullcontext()

    def pausing(self) -> Pausing:
        return self.world.pausing

    def vanishes(self) -> None:
        """It was killed."""
        if self._sink:
            self._sink.vanish()

    def _stored(self) -> None:
        """Only who leads publishes, or led a moment ago."""
        assert self._led is not None, "published before it led"
        alone = 0.0 if self._led.ended is None else self.world.clock() - self._led.ended
        assert alone <= HOLD, f"published {alone:.1f} s after another instance could lead"
