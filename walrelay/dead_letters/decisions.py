"""Which messages become dead letters. A dead letter is durable before its message counts as settled.

The next run recognises a dead letter by its record and destination: a crash may have come right after it was written,
and its message is not offered again then, whatever the settings are by then. No other recovery is needed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from walrelay.dead_letter import UNDECODABLE, DeadLetter, Origin
from walrelay.dead_letters.identity import RecordKey, letters_of_messages, stored_id
from walrelay.dead_letters.refusal_history import RefusalHistory
from walrelay.errors import Undecodable, Unroutable
from walrelay.lsn import LSN
from walrelay.model import EVENT_ID, AnyRecord, Message, Offered, OutboxRecord, RecordPosition, Refusal, Undecoded
from walrelay.observe import DeadLettered, Observer
from walrelay.wiring import Policy

Key = tuple[str, bytes]
"""Topic and key."""

_new = tuple.__new__
_STATUS = {"dead_letter": "waiting", "skip": "skipped"}


PlaceOf = Callable[[Message], str | None]
"""Where at the broker a message goes; None: nowhere."""


def topic_of(message: Message) -> str:
    """The place of a message where topics are places."""
    return message.topic


class DeadLetterWriter(Protocol):
    """`write` and `write_blocked` return when the dead letter is durable on this server, `await_standbys` when a
    standby has all that were written, if it has their records. Any failure ends the run, and nothing is settled.
    """

    def write(self, letter: DeadLetter) -> None:
        """If it is there already, only its attempts are counted."""
        ...

    def write_blocked(self, letter: DeadLetter, behind: Key | None = None) -> bool:
        """Writes it only if an earlier dead letter of that topic and key is open, or else of its own; returns whether
        one is.
        """
        ...

    def await_standbys(self) -> None: ...

    def first_open(self, topic: str, key: bytes) -> Origin | None:
        """The origin of the first open dead letter with that topic and key."""
        ...


class DeadLetterDecisions:
    """The decisions of one run. `settled`: the dead letters that exist from its start on; `blocked`: topics and keys
    with an open dead letter, and the first one of each.
    """

    def __init__(
        self,
        policy: Policy,
        writer: DeadLetterWriter,
        history: RefusalHistory,
        settled: Mapping[RecordKey, Sequence[DeadLetter]],
        blocked: Mapping[Key, Origin],
        observer: Observer,
        place_of: PlaceOf = topic_of,
        under_others: Iterable[tuple[Key, Origin, Key]] = (),
    ) -> None:
        """`under_others`: topics and keys that open dead letters would be published under by today's rules, which
        letters, and what was refused of them.
        """
        self._policy, self._writer, self._history, self._observer = policy, writer, history, observer
        self._place_of = place_of
        self._settled = {key: [*letters] for key, letters in settled.items()}
        for letter in history.in_no_table.values():
            self._settled.setdefault(_record_of(letter.origin), []).append(letter)
        self._last = max((key.commit_lsn for key in self._settled), default=LSN(0))
        self._blocked = dict(blocked)
        self._holders: dict[Key, dict[Key, Origin]] = {}  # what was refused, by what it would be published under
        for now, origin, then in under_others:
            self._holders.setdefault(now, {}).setdefault(then, origin)
        self._decided: tuple[Origin, Sequence[Message]] | None = None  # the last one that was not to be offered

    def offered(self, record: OutboxRecord, messages: Sequence[Message]) -> Sequence[Message]:
        """What to publish for the messages of `record`: dead letters in place of those that have become one."""
        if len(messages) == 1 and not self._settled:  # as a rule; a third of the price of what follows
            offered = _new(Offered, messages[0])
            offered.record = record
            return (offered,)
        numbered = [_offered(message, record, number) for number, message in enumerate(messages)]
        if not self._settled:
            return numbered
        if record.commit_lsn > self._last:
            self._settled = {}
        letters = self._letters_of(record.commit_lsn, record.ordinal, record.id)
        return self._unless_settled(numbered, letters) if letters else numbered

    def unpublishable(
        self, record: AnyRecord, why: Unroutable | Undecodable, payload: bytes | None
    ) -> Sequence[Message]:
        """What to publish for a record that cannot be routed or read: nothing, or its dead letter, which has as much
        of the `payload` as may be published. Raises `why` where the policy is to stop.
        """
        # what cannot be read has no topic, and so no policy of its own
        choice = self._policy.default if isinstance(record, Undecoded) else self._policy.of(record.topic or "")
        letter, unsent = _dead_letter_of_record(record, _STATUS.get(choice, ""), str(why), payload)
        for earlier in self._letters_of(record.commit_lsn, record.ordinal, letter.origin.record_id):
            if earlier.topic is None:
                return self._published(earlier, unsent)
        if choice == "stop":
            raise why
        if self._decided is None or self._decided[0] != letter.origin:
            self._write(letter)
            self._decided = (letter.origin, self._published(letter, unsent))
        return self._decided[1]

    def may_replace(self) -> bool:
        """False: `replacement` returns None for every message. Cheaper to ask."""
        return bool(self._history.closed or self._blocked or self._holders or self._decided)

    def replacement(self, message: Message) -> Sequence[Message] | None:
        """What to publish instead of a message that must not be offered; None: offer it.

        A message that the sink had no room for is asked about again, as another object after a new connection.
        """
        if not isinstance(message, Offered):
            return None
        origin = _origin_of_offered(message)
        if self._decided is not None and self._decided[0] == origin:
            return self._decided[1]
        replacement = self._decide(message)
        self._decided = None if replacement is None else (origin, replacement)
        return replacement

    def _decide(self, message: Offered) -> Sequence[Message] | None:
        if message.key is not None and self._waits(message, (message.topic, message.key)):
            return ()
        place = self._place_of(message) if self._history.closed else None
        closed = None if place is None else self._history.closed.why(place)
        if closed is None or self._policy.of(message.topic) == "stop":
            return None
        return self._dead_lettered(self._dead_letter(message, closed.error, closed.reason, attempts=0), message)

    def is_retried(self, refusal: Refusal) -> bool | None:
        """Whether a refused message is to be offered again; None: the policy is to stop."""
        if self._too_large_a_letter(refusal):
            return False
        origin = _origin(refusal.message)
        if origin is None or refusal.scope == "sink" or self._policy.of(refusal.message.topic) == "stop":
            return None
        attempts = self._history.attempts[origin] = self._history.attempts.get(origin, 0) + 1
        return attempts < self._policy.attempts

    def dead_letter_instead(self, refusal: Refusal) -> Sequence[Message]:
        """Makes a refused message a dead letter; returns what to publish instead of it. May close its place."""
        message = refusal.message
        if self._too_large_a_letter(refusal) and (origin := _origin(message)) is not None:
            self._history.without_value.add(origin)  # for the next run, where this one ends
            return (_without_value(message),)
        if refusal.scope == "topic" and (place := self._place_of(message)) is not None:
            self._history.closed.close(place, refusal.error, refusal.reason)
        origin = _origin(message)
        attempts = self._history.attempts.pop(origin, 1) if origin else 1
        letter = self._dead_letter(message, refusal.error, refusal.reason, attempts)
        if refusal.ends and not self._policy.table:
            self._history.in_no_table[letter.origin] = letter
        return self._dead_lettered(letter, message)

    def _too_large_a_letter(self, refusal: Refusal) -> bool:
        """Whether it is a dead letter on its way to the topic for them, which may take it without its value. The table
        has it whole.
        """
        message = refusal.message
        if refusal.error != "too_large" or not self._policy.table or isinstance(message, Offered):
            return False
        return message.topic == self._policy.topic and _origin(message) not in {None, *self._history.without_value}

    def _dead_letter(self, message: Message, error: str, reason: str, attempts: int) -> DeadLetter:
        return _dead_letter(message, _STATUS[self._policy.of(message.topic)], error, reason, attempts)

    def _dead_lettered(self, letter: DeadLetter, message: Message) -> Sequence[Message]:
        self._write(letter)
        if self._policy.block_key and letter.status == "waiting" and message.key is not None:
            self._blocked.setdefault((message.topic, message.key), letter.origin)
        return self._published(letter, message)

    def _write(self, letter: DeadLetter) -> None:
        if self._policy.table:
            self._writer.write(letter)
        self._observer.saw(DeadLettered(letter))
        if self._policy.table:
            self._writer.await_standbys()

    def _waits(self, message: Offered, key: Key) -> bool:
        """Whether it is blocked behind a dead letter of its key, or one that would be published under its key now."""
        if self._blocks(message, key, self._blocked):
            return True
        holders = self._holders.get(key, {})
        return any(self._blocks(message, then, holders) for then in [*holders])

    def _blocks(self, message: Offered, key: Key, firsts: dict[Key, Origin]) -> bool:
        """`firsts`: the first open dead letters by what was refused; those that are closed by now are taken out."""
        first = firsts.get(key)
        if first is None or _origin_of_offered(message) <= first:  # read again: it precedes what it would wait for
            return False
        why = "an earlier message of its key is a dead letter"
        letter = _dead_letter(message, "blocked", "blocked", why, attempts=0)
        if self._writer.write_blocked(letter, key):
            self._blocked.setdefault((message.topic, letter.key or b""), letter.origin)
            self._observer.saw(DeadLettered(letter))
            self._writer.await_standbys()
            return True
        del firsts[key]
        if (first := self._writer.first_open(*key)) is not None:
            firsts[key] = first
        return False

    def _unless_settled(self, messages: Sequence[Offered], letters: Sequence[DeadLetter]) -> Sequence[Message]:
        found, told = list[Message](), list[DeadLetter]()
        for message, letter in zip(messages, letters_of_messages(letters, messages), strict=True):
            if letter is None:
                found.append(message)
            elif letter not in told:  # one of the whole record is about several messages
                told.append(letter)
                found += self._published(letter, message)
        return found

    def _letters_of(self, commit_lsn: LSN, ordinal: int, record_id: str) -> Sequence[DeadLetter]:
        """The dead letters of a record that exist from the start of the run on."""
        return self._settled.get(RecordKey(commit_lsn, ordinal, stored_id(record_id)), ()) if self._settled else ()

    def _published(self, letter: DeadLetter, message: Message) -> Sequence[Message]:
        """The dead letter as a message, if dead letters go to a topic.

        A message that was too large for its topic is too large for this one: it goes without its value if the table has
        it whole.
        """
        topic = self._policy.topic
        if topic is None or letter.status != "waiting":
            return ()
        notes = {"error": letter.error, "reason": letter.reason, "topic": letter.topic or ""}
        noted = ((f"dead_letter_{name}", text.encode("utf-8", "backslashreplace")) for name, text in notes.items())
        # not Offered: its refusal is not about the original
        whole = Message(topic, message.key, message.value, [*message.headers, *noted], message.timestamp_ms)
        too_large = letter.error == "too_large" or letter.origin in self._history.without_value
        return (_without_value(whole) if too_large and self._policy.table else whole,)


def _without_value(letter: Message) -> Message:
    why = ("dead_letter_value", b"too large for a topic; the table walrelay.dead_letters has it")
    return letter._replace(value=None, headers=[*letter.headers, why])


def _record_of(origin: Origin) -> RecordKey:
    return RecordKey(origin.commit_lsn, origin.ordinal, stored_id(origin.record_id))


def _offered(message: Message, record: OutboxRecord, number: int) -> Offered:
    offered = _new(Offered, message)
    offered.record, offered.number = record, number
    return offered


def _origin_of_offered(message: Offered) -> Origin:
    record = message.record
    return Origin(record.commit_lsn, record.ordinal, message.number, record.id)


def _origin(message: Message) -> Origin | None:
    """By the headers if the sink returns another object than it was offered."""
    if isinstance(message, Offered):
        return _origin_of_offered(message)
    headers = {name: (value or b"").decode("utf-8", "surrogateescape") for name, value in message.headers}
    try:
        lsn, ordinal = RecordPosition.parse(headers.get("position", ""))
    except ValueError:
        return None
    return None if ordinal is None else Origin(lsn, ordinal, 0, headers.get("id", headers.get(EVENT_ID, "")))


def _dead_letter(message: Message, status: str, error: str, reason: str, attempts: int) -> DeadLetter:
    origin = _origin(message)
    assert origin is not None, "a dead letter has an origin"
    record = message.record if isinstance(message, Offered) else None
    plain = Message(*message)
    return DeadLetter(origin, status, error, reason, message.topic, message.key, record, plain, attempts=attempts)


def _dead_letter_of_record(
    record: AnyRecord, status: str, reason: str, payload: bytes | None
) -> tuple[DeadLetter, Message]:
    """The record as a dead letter, and as a message without a topic and without its headers: they may be the fault."""
    position, timestamp_ms = ("position", record.position.encode()), record.committed_at // 1000
    if isinstance(record, Undecoded):
        origin = Origin(record.commit_lsn, record.ordinal, 0, "")
        noted = f"{reason} (prefix {record.prefix!r})"
        letter = DeadLetter(origin, status, UNDECODABLE, noted, raw=record.content)
        return letter, _withheld(Message("", None, payload, [position], timestamp_ms), record.content)
    origin = Origin(record.commit_lsn, record.ordinal, 0, record.id)
    key = None if record.aggregate_id is None else record.aggregate_id.encode("utf-8", "surrogateescape")
    headers: list[tuple[str, bytes | None]] = [("id", record.id.encode("utf-8", "surrogateescape"))]
    if record.type is not None:
        headers.append(("type", record.type.encode("utf-8", "surrogateescape")))
    letter = DeadLetter(origin, status, "unroutable", reason, key=key, record=record)
    return letter, _withheld(Message("", key, payload, [*headers, position], timestamp_ms), record.payload)


def _withheld(letter: Message, whole: bytes | None) -> Message:
    """With a header that says so where its value is not the payload."""
    if letter.value == whole:
        return letter
    how = b"withheld" if letter.value is None else b"redacted"
    why = b" as rules redact or select payloads; the table walrelay.dead_letters, if it is kept, has it whole"
    return letter._replace(headers=[*letter.headers, ("dead_letter_value", how + why)])
