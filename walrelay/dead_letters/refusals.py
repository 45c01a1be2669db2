"""What becomes of refusals in one process, from run to run."""

from collections.abc import Callable

from walrelay.dead_letter import Letter
from walrelay.dead_letters.decisions import Aside, Memory
from walrelay.dead_letters.policy import Policy
from walrelay.dead_letters.store import DeadLetters
from walrelay.dead_letters.wrapping import CarefulRouter, CarefulSink
from walrelay.lsn import LSN
from walrelay.postgres.catalog import Catalog
from walrelay.publish import Sink
from walrelay.route import Routing


class Refusals:
    """Where they only stop the relay, it has router and sink as they are. `letters`: where they are kept, over a
    connection; `tell` is told of each.
    """

    def __init__(
        self, policy: Policy, letters: Callable[[Catalog], DeadLetters], tell: Callable[[Letter], None]
    ) -> None:
        self._policy, self._open, self._tell = policy, letters, tell
        self._memory = Memory()
        self._letters: DeadLetters | None = None

    def begin(self, catalog: Catalog, start: LSN, routing: Routing, sink: Sink) -> tuple[Routing, Sink]:
        """Routing and sink of a run from `start` on, with their refusals handled."""
        if self._policy.only_stops:
            return routing, sink
        self._memory.forget_before(start)
        letters = self._letters = self._open(catalog)
        blocked = letters.blocked_keys() if self._policy.block_key else {}
        aside = Aside(self._policy, letters, self._memory, letters.settled(start), blocked, self._tell)
        return CarefulRouter(routing.route, aside), CarefulSink(sink, aside)

    def resume(self, catalog: Catalog) -> None:
        """The run goes on over another connection."""
        if self._letters is not None:
            self._letters.over(catalog)
