"""What a service of AWS adds to the sink of all of them."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from walrelay.model import Message
from walrelay.sinks.hosting import Misfit


class RequestLimits(NamedTuple):
    """Of one request. `entry_bytes`: of each entry; one may have more than the `bytes` of several together."""

    entries: int
    bytes: int
    entry_bytes: int


class AwsEntry(NamedTuple):
    """A message as the service gets it. `place`: the queue, topic, stream or bus. `size`: as the service counts it."""

    place: str
    fields: dict[str, Any]
    size: int


class EntryFault(NamedTuple):
    """Why the service has not taken an entry; `senders`: whose fault it says that is."""

    code: str
    message: str
    senders: bool | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


class AwsApi(Protocol):
    """What a service adds."""

    service: str
    """As boto3 has it."""

    name: str
    """In messages."""

    limits: RequestLimits

    region: str | None
    """That the settings' addresses name, where they do."""

    def lane(self, message: Message) -> Hashable:
        """One message of a lane is on its way at a time. Never raises."""
        ...

    def entry(self, message: Message) -> AwsEntry | Misfit:
        """Called once a message, in the order of publishing."""
        ...

    def put(self, client: Any, place: str, entries: Sequence[dict[str, Any]]) -> Sequence[EntryFault | None]:
        """Sends a request, in a thread; what became of each entry. Raises what boto3 raises."""
        ...
