"""What a relay's process keeps of the last events."""

from typing import Annotated

from pydantic import Field

from walrelay.config.routes import Path
from walrelay.config.values import Section
from walrelay.route.rules.fields import parse_path
from walrelay.wiring import EventOptions


class EventSettings(Section):
    """The last events, which the relay's process keeps in its memory for `walrelay events` and the admin API: what each
    is, where it went, and when. `walrelay docs activity` explains it in full."""

    keep: Annotated[int, Field(ge=0, le=10_000)] = 1_000
    """How many. 0: none."""

    payloads: bool = False
    """Whether their payloads too, up to 16 kB each. Whoever may read walrelay.activity can see them then."""

    redact: dict[str, tuple[Path, ...]] = Field(default_factory=dict)
    """What is left out of those payloads: paths by patterns of topics, as in `payments.*: [card.number]`, whose values
    become null. Of a topic without a path, as in `audit*: []`, nothing is shown, nor of a payload that is not JSON."""

    @property
    def options(self) -> EventOptions:
        redact = tuple((topics, tuple(map(parse_path, paths))) for topics, paths in self.redact.items())
        return EventOptions(self.keep, self.payloads, redact)
