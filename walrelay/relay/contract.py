"""The factories of a run: what it opens, and what it asks other rooms."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from walrelay.dead_letters.wrapping import DeadLettering
from walrelay.decode.contract import Decoder
from walrelay.errors import NotConnected
from walrelay.model import RelayPosition, System
from walrelay.postgres.catalog import Catalog
from walrelay.publish import ExactlyOnceSink, Sink
from walrelay.route import Routing
from walrelay.source.contract import Positions
from walrelay.source.slot_source import SlotSource
from walrelay.source.stream import Stream


class Pausing(Protocol):
    """Whether somebody wants the relay to pause; for its leader."""

    def while_leading(self, catalog: Catalog) -> AbstractContextManager[None]:
        """Inside, this instance leads. What is wanted is known at its beginning."""
        ...

    def asked(self) -> bool:
        """Whether nothing is to be read now; for every turn of the loop."""
        ...

    def hold(
        self, catalog: Catalog, still_leads: Callable[[], object], interval: float, stop: Callable[[], bool]
    ) -> None:
        """Returns when the pause is over, or `stop` is true. `still_leads` is called at once and at least every
        `interval` seconds; it raises where the lead may be lost. Fatal where the pause cost more than it was to.
        """
        ...


class NeverPaused:
    """Implements `Pausing` for a relay that nobody can pause."""

    def while_leading(self, catalog: Catalog) -> AbstractContextManager[None]:
        return nullcontext()

    def asked(self) -> bool:
        return False

    def hold(
        self, catalog: Catalog, still_leads: Callable[[], object], interval: float, stop: Callable[[], bool]
    ) -> None:
        pass


class Factories(Protocol):
    """What a run opens and asks outside. What it opens is new each time, and the run closes it."""

    def stream(self) -> Stream:
        """A replication connection; NotConnected where there is none to be had."""
        ...

    def refuse_connection(self, cause: NotConnected) -> None:
        """Fatal where no retry can cure that the first connection of the process was refused."""
        ...

    def leads_at_once(self, stream: Stream) -> bool:
        """Whether this connection leads now; it does not if another does, or waits for it."""
        ...

    def lead(self, stream: Stream, stop: Callable[[], bool]) -> bool:
        """True as soon as this connection leads, False when `stop` came first."""
        ...

    def catalog(self) -> Catalog:
        """A connection that answers questions."""
        ...

    def examine(self, catalog: Catalog) -> None:
        """Raises Fatal if no event could come through."""
        ...

    def source(self, stream: Stream, catalog: Catalog, last: RelayPosition | None) -> tuple[SlotSource, Decoder]:
        """The slot, which may be read now, and what reads its frames. `last`: what this process confirmed before."""
        ...

    def sink(self) -> Sink:
        """A sink for one run that publishes at least once."""
        ...

    def exactly_once_sink(self, system: System) -> ExactlyOnceSink:
        """A sink for one run that publishes exactly once; its positions are of `system`."""
        ...

    def positions(self, catalog: Catalog, source: SlotSource) -> Positions | None:
        """Where a relay that publishes at least once keeps its own position, if it does."""
        ...

    def routing(self) -> Routing:
        """Records to messages."""
        ...

    def refusals(self) -> DeadLettering:
        """What becomes of refusals; asked for once in a process."""
        ...

    def while_leading(self, catalog: Catalog) -> AbstractContextManager[None]:
        """What goes on beside the loop for as long as this instance leads."""
        ...

    def pausing(self) -> Pausing:
        """Whether to pause; asked for once in a process."""
        ...
