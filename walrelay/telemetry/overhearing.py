"""Who gets the events of the log beside the log: one listener of the process."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any

Hear = Callable[[str, Mapping[str, Any]], object]
"""Gets the level of an event, and its fields; the event itself is `event`."""


class _Overheard:
    """Hands on each event before it becomes a line."""

    hear: Hear | None = None

    def __call__(self, _: object, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if self.hear is not None:
            with suppress(Exception):  # whoever listens must not keep the line from being written
                self.hear(level, dict(event))
        return event


OVERHEARD = _Overheard()


@contextmanager
def overheard(hear: Hear) -> Iterator[None]:
    """Inside, `hear` gets each event that is logged, from any thread."""
    OVERHEARD.hear = hear
    try:
        yield
    finally:
        OVERHEARD.hear = None
