"""The Sink contract: what a broker's adapter owes the relay, stated as obligations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from walrelay.errors import Refused
from walrelay.lsn import LSN, ZERO
from walrelay.model import (
    EVENT_ID,
    Counting,
    Finding,
    LatestCommit,
    Message,
    Receipt,
    RecordPosition,
    Refusal,
    RelayPosition,
    System,
)

_UNKNOWN = LSN(2**64 - 1), 0  # behind every place


class Sink(Protocol):
    """Owned and called by the relay's one thread. Made for one run; never reused after an error.

    A broker that is away, throttles or has no room is no error, but back-pressure: the sink connects again by itself,
    with growing pauses, and sends again what has no receipt, in order; meanwhile `publish` returns False once the
    window is full, and `trouble` says why.

    Every implementation documents what "durable" means for its broker, and passes the conformance suite in
    `walrelay.testing` against the real server. Where the connection is lost for good a method raises Retryable;
    what no retry can cure is a Refusal (one message) or Fatal (the sink as a whole).
    """

    def publish(self, message: Message, ticket: int) -> bool:
        """Takes responsibility for `message`, after all those before it and without dropping it, or returns
        False: no room now, nothing was taken, offer the same message again after `receipts`. (The dead letter of an
        earlier one may come before it, and it may have become one itself meanwhile.) Returns at once. A sink without
        room sends on its own: nobody flushes it meanwhile. `ticket` is the transaction's number and comes back in the
        receipts.
        """
        ...

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        """All that was taken so far is of transactions that end at or before `end_lsn`, and of the records before
        `ordinal` of the one at `commit_lsn`. Called where the stream begins, after each transaction, now and then
        inside one, and when a message found no room; `over`: nothing follows. A sink that publishes in groups ends them
        here, inside a transaction only if it must; the others have nothing to do.
        """
        ...

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        """What became durable, or was refused, since the last call; waits at most `timeout` seconds for the
        first of it. Receipts may come in any order. A message that never gets a receipt counts as lost.
        Nothing overtakes a message that is refused. After a Refusal whose `ends` is true nothing more is taken or
        sent. Otherwise the sink goes on, and until this call has told of it no later message of its topic was taken.
        """
        ...

    def flush(self, timeout: float) -> None:
        """Pushes out what a sink holds back for batching; returns when all is settled or after `timeout`
        seconds. The receipts are still to be asked for.
        """
        ...

    def close(self) -> None:
        """Lets everything go that has no receipt, within a second or two: nothing that is still queued may
        reach the broker afterwards, because the next run publishes it again. May be called twice; never raises.
        """
        ...

    def descriptor(self) -> int | None:
        """Readable when `receipts` would have something to do, so that the relay waits for PostgreSQL and the broker
        together; None: it asks now and then.
        """
        ...

    def trouble(self) -> str:
        """Why nothing moves, as far as the sink knows: the broker is away, not connected, or takes nothing now (the
        reason and the address), also while no message waits. Empty when all is well.
        """
        ...


class ExactlyOnceSink(Sink, Protocol):
    """A sink that makes messages durable in groups, each together with the position that it ends at, or not at all.

    It gives receipts for whole groups only. `source.contract.Positions` is what it is for the source. One that can wait
    for room after the stream was let go has `outlives_the_stream`, true.
    """

    def fence(self) -> bool:
        """Makes sure that no earlier sink of this slot can publish any more; to be called, before anything else,
        until it is true. Waits for a second at most.
        """
        ...

    def read_up_to(self, latest: LatestCommit) -> None:
        """Goes with every position from now on. A sink without this method keeps positions that cannot tell whether the
        server was set back.
        """
        ...

    def last(self) -> RelayPosition | None:
        """The position of the last group; None if there never was one. Retryable where that cannot be found out."""
        ...

    def keep(self, position: RelayPosition) -> LSN:
        """Makes `position` durable, in a group of its own where nothing waits, if that can be done within a second;
        returns the LSN up to which a position is durable by now.
        """
        ...


class PositionKeeper(Protocol):
    """`source.contract.Positions`, at a broker."""

    def fence(self) -> bool:
        """See `ExactlyOnceSink.fence`; `last` and `keep` see to it themselves where nobody did, and wait for long."""
        ...

    def trouble(self) -> str:
        """See `Sink.trouble`."""
        ...

    def last(self) -> RelayPosition | None: ...

    def keep(self, position: RelayPosition) -> LSN: ...


class RecalledMessage(NamedTuple):
    """A message of walrelay's at the end of a topic. `content`: differs for messages of one record whose keys or values
    differ, in this process. `letter`: a dead letter in a topic for those; `topic` is the one it was meant for then.
    """

    topic: str
    id: str
    position: str
    content: int = 0
    letter: bool = False


class Recalled(NamedTuple):
    """The messages at the ends of topics that were to be seen when the reading began.

    No message with a timestamp from `complete_since_ms` on (Unix time in milliseconds) is missing; 0: no message at all
    is missing; None: unknown.
    """

    messages: Sequence[RecalledMessage]
    complete_since_ms: int | None


class Found(NamedTuple):
    """A message of walrelay's as a consumer that sees only what is committed finds it in a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    id: str
    position: str
    replayed: bool  # it has the header that says so
    letter: bool  # it is a dead letter, in a topic for them
    meant_for: str = ""  # the topic that a dead letter was refused for; empty: it got none, or it is no dead letter
    content: int = 0  # see `RecalledMessage`


class Span(NamedTuple):
    """What was read of a partition: from `began` to before `ended`; its own ends were `low` and `high`.

    Where `ended` is less than `high`, a transaction of some producer is open there, and hides what is behind.
    `oldest_ms`: the timestamp of the first message that was read; None: nothing was.
    """

    topic: str
    partition: int
    low: int
    began: int
    ended: int
    high: int
    oldest_ms: int | None


class Expiry(NamedTuple):
    """A topic deletes a message `seconds` after the message's own time. `fix`: a command that keeps older ones."""

    seconds: float
    fix: str


class TopicMessage(NamedTuple):
    """A message as it is in a topic, whoever published it. `appended`: the timestamp is the broker's own."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    appended: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class TopicStream(Protocol):
    """Some topics, read as one stream."""

    def next(self, timeout: float) -> TopicMessage | None:
        """The next message: each partition in its order, and of all partitions the one with the oldest timestamp. None
        if there is none within `timeout` seconds.
        """
        ...

    @property
    def over(self) -> bool:
        """Whether everything was read that was there when the stream was opened."""
        ...


class ExactlyOnce(NamedTuple):
    """What a kind of sink has that can publish exactly once, and keep positions for a relay that does not."""

    open: Callable[[Any, Any, System, str, Counting | None], ExactlyOnceSink]
    """(settings, memory, system, slot, counting): as that of `SinkPlugin`; `system` and `slot` say whose messages these
    are. `counting` goes with every position that is in the middle of a transaction."""

    open_positions: Callable[[Any, System, str], PositionKeeper]
    """(settings, system, slot): where a relay that publishes at least once can keep its position."""

    examine_positions: Callable[[Any], Iterable[Finding]]
    """(settings): the doctor's question about the place of positions; it changes nothing there."""

    serves_at_least_once: bool = True
    """Whether a relay that publishes at least once may keep its position there while its sink is open."""


class SinkTraits(NamedTuple):
    """What `walrelay sinks` tells people of a kind, each in a few words. The page of the kind says the rest."""

    durable: str
    """What has happened to a message that has a receipt."""

    order: str
    """Which messages arrive in the order they were committed in."""

    repeats: str
    """By what a consumer recognises a message that arrives again."""

    headers: str
    """Which headers fit."""

    size: str
    """How large a message may be."""

    client: str = ""
    """The module that has to be importable; empty where walrelay alone will do."""

    extra: str = ""
    """The extra of the sink's package that installs it."""


Labelled = Mapping[tuple[str, ...], float]
"""A number for each tuple of values of labels."""

ReadNumbers = Callable[[], Mapping[str, Labelled]]
"""What a client library counts of itself, by the names of metrics. Called by other threads than the relay's."""


def _topic(message: Message) -> str:
    return message.topic


class SinkPlugin(NamedTuple):
    """What an entry point in the group `walrelay.sinks` names: what a kind of sink can do. Importing it must not import
    the client library. It has no state: `settings` are an instance of the model, `memory` is what `memory` made.
    """

    settings: type[Any]
    """A pydantic model with the fields of the settings file's `sink:` section, `kind` left out."""

    open: Callable[[Any, Any], Sink]
    """(settings, memory): a new sink for one run. Does not wait for the broker: one that is away is back-pressure."""

    examine: Callable[[Any, Sequence[str]], Iterable[Finding]]
    """(settings, topics): the doctor's questions about the broker; it changes nothing there, and a broker that is away
    is a finding. `topics` are the names known beforehand, with `*` for a part that only a row can say."""

    memory: Callable[[], Any] = lambda: None
    """What the sinks of one relay learn and hand on from run to run; made once in a process for each relay."""

    topic_fault: Callable[[str], str] = lambda name: ""
    """(name): why the broker can have no topic of that name; empty where it may. Asks no broker."""

    place: Callable[[Any], Callable[[Message], str]] = lambda settings: _topic
    """(settings): what says of a message where at the broker it goes, or raises a WalrelayError where that is nowhere.
    A refusal of the scope "topic" is about that place. Needed where the settings lead messages of one topic to
    several."""

    partitions: bool = False
    """Whether it can publish to the partition that a message names, and refuses a message whose partition is not there.
    Of other sinks, settings that place messages are refused."""

    exactly_once: ExactlyOnce | None = None

    writes_to: Callable[[Any], str] = lambda settings: ""
    """(settings): what no other sink may write to, such as a file, in words; empty where sinks may share it. Settings
    in which two have the same are refused."""

    newest: Callable[[Any, Sequence[str], int], Recalled] | None = None
    """(settings, topics, count): the newest `count` messages of each partition, or whatever the topics have instead; a
    topic that does not exist has none. Fatal, with a hint, where they cannot be read. Changes nothing at the broker."""

    read_back: Callable[[Any, Sequence[str], int], Iterator[Found | Span]] | None = None
    """(settings, topics, since_ms): every message of walrelay's with a timestamp from `since_ms` on, and what lies
    between them, up to where the topics ended when this was called; each partition in its order, and when it is at its
    end its Span. A topic that does not exist has none. Fatal, with a hint, where they cannot be read. Changes nothing
    at the broker."""

    expiry: Callable[[Any, Sequence[str]], Mapping[str, Expiry]] | None = None
    """(settings, topics): of those topics that delete by the messages' own times; `*` in a name stands for any text. A
    topic that is not there, or whose settings cannot be seen, is left out. Retryable while the broker cannot be asked.
    Changes nothing there."""

    topic_stream: Callable[[Any, Sequence[str], int], AbstractContextManager[TopicStream]] | None = None
    """(settings, topics, since_ms): the topics from the first message of that time or later, and whatever comes after
    they were opened. Fatal, with a hint, where there is no such topic or it cannot be read. Changes nothing at the
    broker."""

    make_topics: Callable[[Any, Sequence[str], int, int | None], Iterator[tuple[str, bool]]] | None = None
    """(settings, topics, partitions, replication_factor): each topic, and whether it was made now; one that is there
    stays as it is. `replication_factor` None: the broker's default. Fatal, with a hint, for the first that cannot be
    made."""

    made_as: Callable[[Any], str] = lambda settings: "topic"
    """(settings): the broker's word for what `make_topics` makes, such as queue."""

    client_numbers: Callable[[Any], ReadNumbers] | None = None
    """(memory): called before a sink is opened if somebody watches; from then on the client library is to count."""

    traits: SinkTraits | None = None


def refused(refusals: Iterable[Refusal]) -> Refused:
    """The error that stops the relay for the first of them: which record, where, why, and what to do."""
    first = min(refusals, key=lambda refusal: _place(refusal) or _UNKNOWN)
    headers = _headers(first)
    id_ = headers.get("id", headers.get(EVENT_ID, "?"))
    return Refused(
        f"record {id_} at {headers.get('position', '?')} was refused for topic {first.message.topic!r}: {first.reason}",
        hint=first.hint,
        place=_place(first),
    )


def _place(refusal: Refusal) -> tuple[LSN, int] | None:
    try:
        lsn, ordinal = RecordPosition.parse(_headers(refusal)["position"])
    except (ValueError, KeyError):
        return None
    return None if ordinal is None else (lsn, ordinal)


def _headers(refusal: Refusal) -> dict[str, str]:
    return {name: (value or b"").decode(errors="replace") for name, value in refusal.message.headers}
