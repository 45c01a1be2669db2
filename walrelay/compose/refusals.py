"""Settings to what becomes of refusals: the policy, the router and sink of a run, the replay of dead letters."""

from walrelay.compose.reading import router
from walrelay.config import Settings
from walrelay.dead_letters import DeadLetters, Letterbox
from walrelay.dead_letters.decisions import Aside, Memory
from walrelay.dead_letters.policy import Policy
from walrelay.dead_letters.redelivery import Redelivery
from walrelay.dead_letters.wrapping import CarefulRouter, CarefulSink
from walrelay.lsn import LSN
from walrelay.observe import Observer
from walrelay.postgres.catalog import Catalog
from walrelay.publish import Sink, load
from walrelay.route import Routing


def policy(settings: Settings) -> Policy:
    """The section `refusals` as the stage publish takes it."""
    section = settings.refusals
    return Policy(
        default=section.policy,
        topics=tuple(section.topics.items()),
        attempts=section.attempts,
        block_key=section.block_key,
        table=section.dead_letters != "topic",
        topic=section.dead_letter_topic if section.dead_letters != "table" else None,
    )


class Refusals:
    """What becomes of refusals in one process. Where they only stop the relay, it has router and sink as they are."""

    def __init__(self, settings: Settings, observer: Observer) -> None:
        self._settings, self._policy, self._tell = settings, policy(settings), observer.set_aside
        self._memory = Memory()
        self._letters: DeadLetters | None = None

    def begin(self, catalog: Catalog, start: LSN, routing: Routing, sink: Sink) -> tuple[Routing, Sink]:
        """Routing and sink of a run from `start` on, with their refusals handled."""
        if self._policy.only_stops:
            return routing, sink
        self._memory.forget_before(start)
        letters = self._letters = dead_letters(self._settings, catalog)
        blocked = letters.blocked_keys() if self._policy.block_key else {}
        aside = Aside(self._policy, letters, self._memory, letters.settled(start), blocked, self._tell)
        return CarefulRouter(routing.route, aside), CarefulSink(sink, aside)

    def resume(self, catalog: Catalog) -> None:
        """The run goes on over another connection."""
        if self._letters is not None:
            self._letters.over(catalog)


def dead_letters(settings: Settings, catalog: Catalog) -> DeadLetters:
    """Where the letters of the settings' slot are written."""
    return DeadLetters(catalog, settings.source.slot, settings.sink.kind)


def letterbox(settings: Settings, catalog: Catalog) -> Letterbox:
    """Where the letters of the settings' slot are found."""
    return Letterbox(catalog, settings.source.slot)


def redelivery(settings: Settings, box: Letterbox, by: str) -> Redelivery:
    """What publishes dead letters by the rules and to the broker of the settings."""

    def open_sink() -> Sink:
        return load(settings.sink.kind).open(settings.sink.settings)

    return Redelivery(box, router(settings).route, open_sink, by)
