"""Typed events: which class is which type of event, in which version, and of which aggregate."""

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from walrelay.outbox.events import Event, key_text

VERSION = "event-version"
"""The header with the version; there is none in version 1."""

T = TypeVar("T", bound=type)


class UnknownEvent(LookupError):
    """A class, or a type and version, that is not registered."""


class Description(NamedTuple):
    """What an instance of a class becomes."""

    name: str
    version: int
    aggregate_type: str
    aggregate_id: Callable[[Any], object]
    topic: str | None


class Registry:
    """Classes of events (pydantic models or dataclasses) by name and version."""

    def __init__(self) -> None:
        self._described: dict[type, Description] = {}
        self._classes: dict[tuple[str, int], type] = {}

    def event(
        self,
        name: str,
        *,
        aggregate_type: str,
        aggregate_id: str | Callable[[Any], object],
        version: int = 1,
        topic: str | None = None,
    ) -> Callable[[T], T]:
        """Registers the class that it decorates. `aggregate_id`: the attribute that has it, or a function of the event.

        ValueError if another class has that name and version already.
        """
        find = attrgetter(aggregate_id) if isinstance(aggregate_id, str) else aggregate_id

        def register(kind: T) -> T:
            other = self._classes.setdefault((name, version), kind)
            if (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
                raise ValueError(
                    f"{name} version {version} is already registered as {other.__module__}.{other.__qualname__}"
                )
            self._classes[name, version] = kind  # of a module that was loaded again
            self._described[kind] = Description(name, version, aggregate_type, find, topic)
            return kind

        return register

    def envelope(self, payload: object) -> Event:
        """The event that an instance of a registered class becomes; UnknownEvent for any other."""
        described = self._described.get(type(payload))
        if described is None:
            raise UnknownEvent(
                f"{type(payload).__qualname__} is not a registered event: decorate the class with"
                " @event(name, aggregate_type=..., aggregate_id=...), or emit an Event"
            )
        return Event(
            aggregate_type=described.aggregate_type,
            aggregate_id=key_text(described.aggregate_id(payload)),
            type=described.name,
            payload=payload,
            headers={} if described.version == 1 else {VERSION: str(described.version)},
            topic=described.topic,
        )

    def read(self, name: str, payload: bytes | str, version: int | str | None = None) -> Any:
        """The instance that a message's value stands for, checked by pydantic, which has to be installed for it.

        `name` and `version` are the headers `type` and `event-version`. UnknownEvent if they are not registered;
        pydantic's ValidationError, a ValueError, for another content.
        """
        number = int(version or 1)
        kind = self._classes.get((name, number))
        if kind is None:
            known = ", ".join(sorted(f"{known} {version}" for known, version in self._classes)) or "none"
            raise UnknownEvent(f"{name} version {number} is not a registered event; known are: {known}")
        return import_module("pydantic").TypeAdapter(kind).validate_json(payload)


registry = Registry()
"""The default registry: `event` registers here."""

event = registry.event
