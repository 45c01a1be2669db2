"""Says which events are older than their topic keeps messages, where it goes by the messages' own times.

Such a topic deletes an event as soon as it has acknowledged it. The broker is asked in a thread of its own, and only
once an event is old: the relay waits for no answer.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock, Thread
from time import monotonic, time

from walrelay.errors import WalrelayError
from walrelay.model import AnyRecord, Message
from walrelay.observe import Noticed, Observer
from walrelay.publish import AnySinkHandle, Expiry
from walrelay.route import Routing
from walrelay.table.expiry import duration

_OLD = 10.0  # seconds; the topic of a younger event is not asked about
_ASK_AGAIN = 60.0  # seconds: settings of topics change
_MOST = 1000  # topics that are asked about


class ExpiryWatch:
    """Implements `Routing`: routes as `routing` does. Each topic is told of once in a run."""

    def __init__(
        self, routing: Routing, ask: Callable[[Sequence[str]], Mapping[str, Expiry]], observer: Observer
    ) -> None:
        self._route, self._ask, self._observer = routing.route, ask, observer
        self._lock = Lock()
        self._first: dict[str, tuple[str, float]] = {}  # an old event of each topic: its position and time
        self._kept: dict[str, float] = {}  # seconds, of the topics that delete by the messages' own times
        self._told = set[str]()
        self._asked_at = -_ASK_AGAIN

    def route(self, record: AnyRecord) -> Sequence[Message]:
        messages = [*self._route(record)]
        if messages and time() - record.committed_at / 1e6 > _OLD:
            self._look(record.position, record.committed_at / 1e6, messages)
        return messages

    def _look(self, position: str, at: float, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.topic in self._first or len(self._first) < _MOST:
                self._first.setdefault(message.topic, (position, at))
                self._judge(message.topic, position, at)
        if monotonic() - self._asked_at > _ASK_AGAIN:
            self._asked_at = monotonic()
            Thread(target=self._find_out, args=([*self._first],), name="walrelay expiry", daemon=True).start()

    def _find_out(self, topics: Sequence[str]) -> None:
        try:
            found = self._ask(topics)
        except WalrelayError:
            return  # asked again with a later event
        self._kept = {topic: each.seconds for topic, each in found.items()}
        for topic in topics:
            self._judge(topic, *self._first[topic])

    def _judge(self, topic: str, position: str, at: float) -> None:
        kept = self._kept.get(topic)
        if kept is None or time() - at <= kept:
            return
        with self._lock:
            if topic in self._told:
                return
            self._told.add(topic)
        self._tell(topic, position, at, kept)

    def _tell(self, topic: str, position: str, at: float, kept: float) -> None:
        self._observer.saw(
            Noticed(
                f"the event at {position} was committed {duration(time() - at)} ago, and topic {topic} deletes messages"
                f" {duration(kept)} after their own time: it and older ones are gone as soon as they are published"
                " (hint: `walrelay doctor` has the setting)"
            )
        )


def expiry_watched(routing: Routing, sink: AnySinkHandle, observer: Observer) -> Routing:
    """`routing` itself where no topic deletes that way."""
    return ExpiryWatch(routing, sink.expiry, observer) if sink.may_expire else routing
