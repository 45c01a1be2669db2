"""Says which events are older than their topic keeps messages, where it goes by the messages' own times.

Such a topic deletes an event as soon as it has acknowledged it. The broker is asked in a thread of its own, and only
once an event is old: the relay waits for no answer.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock, Thread
from time import monotonic, time

from walrelay.errors import WalrelayError
from walrelay.model import Message
from walrelay.observe import Happening, Noticed, Observer, Observers, Relayed
from walrelay.publish import AnySinkHandle, Expiry
from walrelay.publish.expiry import duration

_OLD = 10.0  # seconds; the topic of a younger event is not asked about
_ASK_AGAIN = 60.0  # seconds: settings of topics change
_MOST = 1000  # topics that are asked about


class ExpiryWatch:
    """An observer of a relay for as long as the process has it. Reports each topic once."""

    def __init__(self, ask: Callable[[Sequence[str]], Mapping[str, Expiry]], observer: Observer) -> None:
        self._ask, self._observer = ask, observer
        self._lock = Lock()
        self._first: dict[str, Message] = {}  # an old event of each topic
        self._kept: dict[str, float] = {}  # seconds, of the topics that delete by the messages' own times
        self._told = set[str]()
        self._asked_at, self._asking = -_ASK_AGAIN, False

    def saw(self, happening: Happening) -> None:
        """Looks at the messages of a turn only if the first of them is old: those behind it are younger."""
        if type(happening) is not Relayed or not happening.taken:
            return
        now = time()
        if now - happening.taken[0].timestamp_ms / 1000 > _OLD:
            self._look(happening.taken, now)

    def _look(self, messages: Sequence[Message], now: float) -> None:
        for topic in {message.topic for message in messages} - self._told:
            first = next(message for message in messages if message.topic == topic)
            if topic in self._first or len(self._first) < _MOST:
                self._first.setdefault(topic, first)
                self._judge(first, now)
        if not self._asking and monotonic() - self._asked_at > _ASK_AGAIN:
            self._asking, self._asked_at = True, monotonic()
            Thread(target=self._find_out, args=([*self._first],), name="walrelay expiry", daemon=True).start()

    def _find_out(self, topics: Sequence[str]) -> None:
        try:
            self._kept = {topic: each.seconds for topic, each in self._ask(topics).items()}
            for topic in topics:
                self._judge(self._first[topic], time())
        except WalrelayError:
            pass  # asked again with a later event
        finally:
            self._asking = False

    def _judge(self, message: Message, now: float) -> None:
        topic, at = message.topic, message.timestamp_ms / 1000
        kept = self._kept.get(topic)
        if kept is None or now - at <= kept:
            return
        with self._lock:
            if topic in self._told:
                return
            self._told.add(topic)
        position = next((value or b"" for name, value in message.headers if name == "position"), b"").decode()
        self._observer.saw(
            Noticed(
                f"the event {f'at {position} ' if position else ''}was committed {duration(now - at)} ago, and topic"
                f" {topic} deletes messages {duration(kept)} after their own time: it and older ones are"
                " gone as soon as they are published (hint: `walrelay doctor` has the setting)"
            )
        )


def expiry_watched(observer: Observer, sink: AnySinkHandle) -> Observer:
    """`observer` itself where no topic deletes that way."""
    return Observers(observer, ExpiryWatch(sink.expiry, observer)) if sink.may_expire else observer
