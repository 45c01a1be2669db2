"""Setting aside: a message that will never be taken is kept as a dead letter, durably, before it counts as settled.

What is set aside is known by its place (position, id). A letter that was written before a crash is found again at the
start of the next run, and its message is not offered then: this is the one recovery path, and it needs no other.
"""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import NamedTuple, Protocol

from walrelay.dead_letter import UNDECODABLE, Letter, Place
from walrelay.dead_letters.policy import Policy
from walrelay.errors import Undecodable, Unroutable
from walrelay.lsn import LSN
from walrelay.model import AnyRecord, Message, Offered, OutboxRecord, RecordPosition, Refusal, Undecoded

Key = tuple[str, bytes]
"""Topic and key."""

_CLOSED = 60.0  # seconds until a topic that refused everything is offered a message again
_new = tuple.__new__
_STATUS = {"dead_letter": "waiting", "skip": "skipped"}


class Letters(Protocol):
    """Where letters are kept. `keep` and `block` return when the letter is durable where it was written, `survive` when
    all of them survive whatever their records survive; any failure ends the run, and nothing is settled.
    """

    def keep(self, letter: Letter) -> None:
        """Writes the letter; one that is there already only counts its attempts."""
        ...

    def block(self, letter: Letter) -> bool:
        """Writes the letter if an earlier one of its topic and key is still open; False, and nothing, if none is."""
        ...

    def survive(self) -> None:
        """Returns when a standby that takes over has the letters that were written, if it has their records."""
        ...

    def first_open(self, topic: str, key: bytes) -> Place | None:
        """The first letter of that topic and key that is still open."""
        ...


class Closed(NamedTuple):
    """A topic that refused everything, until when it is not asked again."""

    until: float
    error: str
    reason: str


class Memory:
    """What a process knows of refusals from one run to the next."""

    def __init__(self) -> None:
        self.attempts: dict[Place, int] = {}
        self.closed: dict[str, Closed] = {}  # by topic
        self.aside: dict[Place, Letter] = {}  # what is set aside and in no table
        self.bare: set[Place] = set()  # whose dead letters are too large for their topic

    def forget_before(self, lsn: LSN) -> None:
        """What was confirmed will not come again."""
        self.attempts = {place: count for place, count in self.attempts.items() if place.commit_lsn >= lsn}
        self.aside = {place: letter for place, letter in self.aside.items() if place.commit_lsn >= lsn}
        self.bare = {place for place in self.bare if place.commit_lsn >= lsn}


class Aside:
    """The decisions of one run. `settled`: the letters there are from its start on; `blocked`: the keys that wait, and
    the first letter of each.
    """

    def __init__(
        self,
        policy: Policy,
        letters: Letters,
        memory: Memory,
        settled: Mapping[Place, Letter],
        blocked: Mapping[Key, Place],
        tell: Callable[[Letter], None],
    ) -> None:
        self._policy, self._letters, self._memory, self._tell = policy, letters, memory, tell
        self._settled = {**memory.aside, **settled}
        self._last = max((place.commit_lsn for place in self._settled), default=LSN(0))
        self._blocked = dict(blocked)
        self._decided: tuple[Place, Sequence[Message]] | None = None  # the last one that was not to be offered

    def offered(self, record: OutboxRecord, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages of `record` that are to be published, or their dead letters where they are set aside."""
        if len(messages) == 1 and not self._settled:  # as a rule; a third of the price of what follows
            offered = _new(Offered, messages[0])
            offered.record = record
            return (offered,)
        numbered = [_offered(message, record, number) for number, message in enumerate(messages)]
        if not self._settled:
            return numbered
        if record.commit_lsn > self._last:
            self._settled = {}
        return [each for message in numbered for each in self._unless_settled(message)]

    def without_message(self, record: AnyRecord, why: Unroutable | Undecodable) -> Sequence[Message]:
        """What is published of a record that no rule routes, or of what is no record: nothing, or its dead letter;
        `why` where that stops.
        """
        # what is no record has no topic that another policy could be for
        choice = self._policy.default if isinstance(record, Undecoded) else self._policy.of(record.topic or "")
        if choice == "stop":
            raise why
        letter, unsent = _unpublishable(record, _STATUS[choice], str(why))
        if self._decided is None or self._decided[0] != letter.place:
            self._keep(letter)
            self._decided = (letter.place, self._published(letter, unsent))
        return self._decided[1]

    def alert(self) -> bool:
        """Whether `instead` may have anything to say."""
        return bool(self._memory.closed or self._blocked or self._decided)

    def instead(self, message: Message) -> Sequence[Message] | None:
        """What takes the place of a message that is not to be offered at all; None: offer it.

        What found no room is asked about again, and after a new connection it is another object of the same place.
        """
        if not isinstance(message, Offered):
            return None
        place = _place_of(message)
        if self._decided is not None and self._decided[0] == place:
            return self._decided[1]
        instead = self._decide(message)
        self._decided = None if instead is None else (place, instead)
        return instead

    def _decide(self, message: Offered) -> Sequence[Message] | None:
        if message.key is not None and self._blocks(message, message.key):
            return ()
        closed = self._memory.closed.get(message.topic)
        if closed is None:
            return None
        if monotonic() >= closed.until:
            del self._memory.closed[message.topic]
            return None
        return self._set_aside(self._letter(message, closed.error, closed.reason, attempts=0), message)

    def tries_again(self, refusal: Refusal) -> bool | None:
        """Whether a refused message is to be offered again; None: the policy is to stop."""
        if self._too_large_a_letter(refusal):
            return False
        place = _place(refusal.message)
        if place is None or refusal.scope == "sink" or self._policy.of(refusal.message.topic) == "stop":
            return None
        attempts = self._memory.attempts[place] = self._memory.attempts.get(place, 0) + 1
        return attempts < self._policy.attempts

    def takes_the_place(self, refusal: Refusal) -> Sequence[Message]:
        """What takes the place of a refused message, which is a dead letter now. Its topic may be closed by that."""
        message = refusal.message
        if self._too_large_a_letter(refusal) and (place := _place(message)) is not None:
            self._memory.bare.add(place)  # for the next run, where this one ends
            return (_bare(message),)
        if refusal.scope == "topic":
            self._memory.closed[message.topic] = Closed(monotonic() + _CLOSED, refusal.error, refusal.reason)
        place = _place(message)
        attempts = self._memory.attempts.pop(place, 1) if place else 1
        letter = self._letter(message, refusal.error, refusal.reason, attempts)
        if refusal.ends and not self._policy.table:
            self._memory.aside[letter.place] = letter
        return self._set_aside(letter, message)

    def _too_large_a_letter(self, refusal: Refusal) -> bool:
        """Whether it is a dead letter that the table has whole, and that its topic may take without its value."""
        message = refusal.message
        if refusal.error != "too_large" or not self._policy.table or isinstance(message, Offered):
            return False
        return message.topic == self._policy.topic and _place(message) not in {None, *self._memory.bare}

    def _letter(self, message: Message, error: str, reason: str, attempts: int) -> Letter:
        return _letter(message, _STATUS[self._policy.of(message.topic)], error, reason, attempts)

    def _set_aside(self, letter: Letter, message: Message) -> Sequence[Message]:
        self._keep(letter)
        if self._policy.block_key and letter.status == "waiting" and message.key is not None:
            self._blocked.setdefault((message.topic, message.key), letter.place)
        return self._published(letter, message)

    def _keep(self, letter: Letter) -> None:
        if self._policy.table:
            self._letters.keep(letter)
        self._tell(letter)
        if self._policy.table:
            self._letters.survive()

    def _blocks(self, message: Offered, key: bytes) -> bool:
        first = self._blocked.get((message.topic, key))
        if first is None or _place_of(message) <= first:  # read again, it comes before what it would wait for
            return False
        why = "an earlier message of its key is a dead letter"
        letter = _letter(message, "blocked", "blocked", why, attempts=0)
        if self._letters.block(letter):
            self._tell(letter)
            self._letters.survive()
            return True
        del self._blocked[message.topic, key]
        if (first := self._letters.first_open(message.topic, key)) is not None:
            self._blocked[message.topic, key] = first
        return False

    def _unless_settled(self, message: Offered) -> Sequence[Message]:
        letter = self._settled.get(_place_of(message))
        return (message,) if letter is None else self._published(letter, message)

    def _published(self, letter: Letter, message: Message) -> Sequence[Message]:
        """The dead letter as a message for its topic, if they go to one.

        What is too large is too large there as well; where the table has it whole, the message goes without its value.
        """
        topic = self._policy.topic
        if topic is None or letter.status != "waiting":
            return ()
        notes = {"error": letter.error, "reason": letter.reason, "topic": letter.topic or ""}
        noted = ((f"dead_letter_{name}", text.encode("utf-8", "backslashreplace")) for name, text in notes.items())
        # not Offered: it stands for itself
        whole = Message(topic, message.key, message.value, [*message.headers, *noted], message.timestamp_ms)
        too_large = letter.error == "too_large" or letter.place in self._memory.bare
        return (_bare(whole) if too_large and self._policy.table else whole,)


def _bare(letter: Message) -> Message:
    why = ("dead_letter_value", b"too large for a topic; the table walrelay.dead_letters has it")
    return letter._replace(value=None, headers=[*letter.headers, why])


def _offered(message: Message, record: OutboxRecord, number: int) -> Offered:
    offered = _new(Offered, message)
    offered.record, offered.number = record, number
    return offered


def _place_of(message: Offered) -> Place:
    record = message.record
    return Place(record.commit_lsn, record.ordinal, message.number, record.id)


def _place(message: Message) -> Place | None:
    """Where it came from; of a sink that gives back another object than it was offered, by the headers."""
    if isinstance(message, Offered):
        return _place_of(message)
    headers = {name: (value or b"").decode("utf-8", "surrogateescape") for name, value in message.headers}
    try:
        lsn, ordinal = RecordPosition.parse(headers.get("position", ""))
    except ValueError:
        return None
    return None if ordinal is None else Place(lsn, ordinal, 0, headers.get("id", ""))  # what is no record has no id


def _letter(message: Message, status: str, error: str, reason: str, attempts: int) -> Letter:
    place = _place(message)
    assert place is not None, "only what can be named is set aside"
    record = message.record if isinstance(message, Offered) else None
    plain = Message(*message)
    return Letter(place, status, error, reason, message.topic, message.key, record, plain, attempts=attempts)


def _unpublishable(record: AnyRecord, status: str, reason: str) -> tuple[Letter, Message]:
    """Its letter, and what it is as a message without a topic; headers that may be the very fault are left out."""
    position, timestamp_ms = ("position", record.position.encode()), record.committed_at // 1000
    if isinstance(record, Undecoded):
        place = Place(record.commit_lsn, record.ordinal, 0, "")
        noted = f"{reason} (prefix {record.prefix!r})"
        letter = Letter(place, status, UNDECODABLE, noted, raw=record.content)
        return letter, Message("", None, record.content, [position], timestamp_ms)
    place = Place(record.commit_lsn, record.ordinal, 0, record.id)
    key = None if record.aggregate_id is None else record.aggregate_id.encode("utf-8", "surrogateescape")
    headers: list[tuple[str, bytes | None]] = [("id", record.id.encode("utf-8", "surrogateescape"))]
    if record.type is not None:
        headers.append(("type", record.type.encode("utf-8", "surrogateescape")))
    letter = Letter(place, status, "unroutable", reason, key=key, record=record)
    return letter, Message("", key, record.payload, [*headers, position], timestamp_ms)
