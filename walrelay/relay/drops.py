"""Tells which records a rule drops: the rules are pure, and nothing is dropped quietly."""

from walrelay.model import AnyRecord, Message
from walrelay.observe import Dropped, Observer
from walrelay.route import Routing
from walrelay.route.rules import RuleRouter


class ObservedDrops:
    """Implements `Routing` for rules that drop records."""

    def __init__(self, router: RuleRouter, observer: Observer) -> None:
        self._decide, self._observer = router.decide, observer

    def route(self, record: AnyRecord) -> tuple[Message, ...]:
        messages, dropped = self._decide(record)
        if dropped is not None:
            self._observer.saw(Dropped(dropped, record.position))
        return messages


def observed(router: Routing, observer: Observer) -> Routing:
    """The router itself where no rule drops anything."""
    return ObservedDrops(router, observer) if isinstance(router, RuleRouter) and router.drops else router
