"""Attempts at publishing rows of the table, one after the other until one gets to its end."""

from threading import Event
from typing import Protocol

from walrelay.config import Settings
from walrelay.observe import Observer
from walrelay.supervise import Backoff, supervise


class Attempts(Protocol):
    """Each makes everything anew; what is durable is noted in the database."""

    published: int
    finished: bool

    def run(self) -> None:
        """One attempt, to its end, to a stop, or to the error that ends it."""


def until_finished(attempts: Attempts, stop: Event, settings: Settings, observer: Observer) -> bool:
    """True when one got to its end, False after a stop; Fatal when an operator must act."""
    supervise(
        run=attempts.run,
        progress=lambda: attempts.published,
        stop=stop.is_set,
        wait=stop.wait,
        observer=observer,
        backoff=Backoff(settings.retry.min_pause, settings.retry.max_pause),
    )
    return attempts.finished
