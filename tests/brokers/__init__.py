"""Brokers as tests see them, a module for each: a case of the contract (`walrelay.testing.Case`), and the place that a
relay of the acceptance tests publishes to (`Broker`).
"""

from typing import Any, Protocol

from tests.servers.topics import Received


class Broker(Protocol):
    """A place in a broker of its own. `topic`: its name."""

    topic: str

    @property
    def sink(self) -> dict[str, Any]:
        """The section of the settings."""
        ...

    def read_all(self, *topics: str) -> list[Received]:
        """Every message; a key is a partition of its own where the broker has none. May be called once."""
        ...

    def kill(self) -> None: ...

    def start(self) -> None: ...
