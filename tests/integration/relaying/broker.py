"""A broker in the test's hands: what it was offered, what it made durable, and when it says so."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from threading import Event

from pydantic import BaseModel, ConfigDict

from walrelay.errors import Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import EVENT_ID, Message, Receipt, Refusal
from walrelay.publish import Expiry, Recalled, RecalledMessage, SinkPlugin
from walrelay.sinks.address import AddressTemplate, NoAddress

KIND = "recording"


class Killed(BaseException):
    """The relay's process died on the spot: nothing is settled, confirmed or said good-bye to."""


class Broker:
    """Outlives the runs of a relay. Cruel: what has no receipt when a run ends is lost, as it is for the relay."""

    def __init__(self) -> None:
        self.offered: list[Message] = []
        self.durable: list[Message] = []
        self.expiry: dict[str, Expiry] = {}
        self.capacity = inf
        """How many messages a sink takes without a receipt for them."""
        self.refused = set[str]()
        """Places, which as a rule are topics, whose messages are refused."""
        self.scope = "message"
        """What a refusal is about."""
        self._grants = inf
        self._breaks = inf
        self._death: type[BaseException] = Retryable
        self._open = Event()
        self._open.set()

    def withhold(self) -> None:
        """No receipts until `release` or `grant`."""
        self._grants = 0
        self._open.clear()

    def grant(self, receipts: int) -> None:
        """So many receipts, in the messages' order, and no more."""
        self._grants = receipts
        self._open.set()

    def release(self) -> None:
        """Room and receipts for all."""
        self.capacity = self._grants = inf
        self._open.set()

    def break_after(self, messages: int, death: type[BaseException] = Retryable) -> None:
        """The publish after so many more messages ends the run, once."""
        self._breaks, self._death = len(self.offered) + messages, death

    def offer(self, message: Message) -> None:
        if len(self.offered) >= self._breaks:
            self._breaks = inf
            raise self._death("the test's broker is gone")
        self.offered.append(message)

    def acknowledge(self, waiting: Sequence[Message], timeout: float) -> int:
        """How many of the messages that wait become durable now."""
        if waiting and not self._grants:
            self._open.wait(timeout)
        count = int(min(len(waiting), self._grants))
        self._grants -= count
        if not self._grants:
            self._open.clear()
        self.durable.extend(waiting[:count])
        return count


class _Sink:
    """One connection to the broker: implements `walrelay.publish.Sink`."""

    def __init__(self, broker: Broker, place: AddressTemplate) -> None:
        self._broker, self._place = broker, place
        self._waiting: list[tuple[int, Message]] = []

    def publish(self, message: Message, ticket: int) -> bool:
        if len(self._waiting) >= self._broker.capacity:
            return False
        self._broker.offer(message)
        self._waiting.append((ticket, message))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        refused = [each for each in self._waiting if self._where(each[1]) in self._broker.refused]
        if refused:
            self._waiting = [each for each in self._waiting if each not in refused]
            scope = self._broker.scope
            return [Refusal(ticket, message, "poison", "", "poison", scope, ends=False) for ticket, message in refused]
        count = self._broker.acknowledge([message for _, message in self._waiting], timeout)
        settled = Counter(ticket for ticket, _ in self._waiting[:count])
        del self._waiting[:count]
        return [Receipt(ticket, messages) for ticket, messages in settled.items()]

    def _where(self, message: Message) -> str:
        try:
            return self._place(message)
        except NoAddress:
            return message.topic

    def flush(self, timeout: float) -> None:
        pass

    def close(self) -> None:
        self._waiting.clear()

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return ""


class RecordingSettings(BaseModel):
    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    broker: Broker
    place: str = "{topic}"


def _newest(settings: RecordingSettings, topics: Sequence[str], count: int) -> Recalled:
    """As if each topic had one partition."""
    found, complete = list[RecalledMessage](), 0
    for topic in topics:
        there = [message for message in settings.broker.durable if message.topic == topic]
        if len(there) > count:
            complete = max(complete, there[-count].timestamp_ms)
        found += [_recalled(message) for message in there[-count:]]
    return Recalled(found, complete)


def _recalled(message: Message) -> RecalledMessage:
    headers = {name: (value or b"").decode() for name, value in message.headers}
    letter = "dead_letter_error" in headers
    topic = headers["dead_letter_topic"] if letter else message.topic
    id_ = headers.get("id") or headers[EVENT_ID]
    return RecalledMessage(topic, id_, headers["position"], hash((message.key, message.value)), letter)


plugin = SinkPlugin(
    RecordingSettings,
    open=lambda settings, memory: _Sink(settings.broker, AddressTemplate(settings.place)),
    place=lambda settings: AddressTemplate(settings.place),
    examine=lambda settings, topics: [],
    newest=_newest,
    expiry=lambda settings, topics: settings.broker.expiry,
)
