"""What the topics add to rows that were found."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from walrelay.model import sink_and_topic
from walrelay.operations.find.copies import TopicsRead, read_topics
from walrelay.operations.find.judging import missing_topics, with_copies
from walrelay.operations.find.question import RowQuestion
from walrelay.operations.find.report import DONE, FoundRows, RowCopy, TracedRow
from walrelay.publish import Found
from walrelay.wiring import Wiring

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MARGIN = timedelta(minutes=1)  # by which a writer's clock may be ahead of the server's
_DAY = timedelta(days=1)
_EXPECTED = ("published", "waiting", "unknown")


def read_back(wiring: Wiring, question: RowQuestion, found: FoundRows, seconds: float) -> FoundRows:
    """Adds the messages of the rows, and what they say. Takes no longer than that, and needs no connection to
    PostgreSQL.
    """
    reading = _Reading(wiring, question, found)
    read = read_topics(wiring.sink.readers, reading.topics, reading.since_ms, reading.wanted, reading.due, seconds)
    rows = [reading.seen(each, read) for each in found.rows]
    return found._replace(rows=rows, notices=[*found.notices, *reading.notices(read)])


class _Reading:
    """What is to be read for which rows, and what that says of each."""

    def __init__(self, wiring: Wiring, question: RowQuestion, found: FoundRows) -> None:
        self._sink, self._letters = wiring.sink, wiring.policy.topic
        self._named, self._elsewhere = question.topics, found.topics
        self._rows = [each for each in found.rows if each.state != "dropped"]
        self.wanted = frozenset(each.id for each in self._rows)
        self.due = {each.id: self._readable(each.due) for each in self._rows if each.state in _EXPECTED}
        self.topics: dict[str, list[str]] = {}
        for topic in sorted({topic for each in self._rows for topic in self._readable(self._of(each))}):
            self.topics.setdefault(self._sink_name(topic), []).append(topic)
        self._guessed = False
        begun = [self._begins(each, question.since) for each in self._rows]
        self.since_ms = max(0, int((min(begun, default=_EPOCH) - _EPOCH) / timedelta(milliseconds=1)))

    def seen(self, row: TracedRow, read: Mapping[str, TopicsRead]) -> TracedRow:
        if row.state == "dropped":
            return row
        found = [each for of_sink in read.values() for each in of_sink.found if each.id == row.id]
        copies = [self._copy(each) for each in found if not each.letter]
        letters = next((each.topic for each in found if each.letter), "")
        topics = self._of(row)
        state = {topic: self._state(topic, read) for topic in topics}
        there = {each.topic for each in found if not each.letter}
        missing = missing_topics(row, there, state)
        row = with_copies(row, copies, there, letters, missing)
        return row._replace(read_back=_told(state, complete=bool(row.due) and {*row.due} <= there))

    def notices(self, read: Mapping[str, TopicsRead]) -> Iterator[str]:
        since = f"{_EPOCH + timedelta(milliseconds=self.since_ms):%Y-%m-%d %H:%M:%S} UTC"
        if self._guessed and read:
            yield f"the topics were read from {since} on: a time to begin at (since) finds what is older"
        for sink, each in read.items():
            if each.failed or each.done:
                continue
            name = f"of the sink {sink} " if sink else ""
            upto = "" if each.upto_ms is None else f", up to about {_clock(each.upto_ms)}"
            yield (
                f"the topics {name}were not read to their ends ({each.messages} messages from {since} on{upto}):"
                " repetitions and replays may come later"
            )

    def _of(self, row: TracedRow) -> list[str]:
        """The topics that may have it."""
        letters = [self._letters] if self._letters else []
        own = [*row.due, *self._named] if row.due else self._elsewhere
        return [*dict.fromkeys([*own, *letters])]

    def _readable(self, topics: Sequence[str]) -> list[str]:
        return [each for each in topics if self._sink_name(each) in self._sink.readers]

    def _sink_name(self, topic: str) -> str:
        return sink_and_topic(topic)[0] if self._sink.names else ""

    def _begins(self, row: TracedRow, since: datetime | None) -> datetime:
        if row.committed_at is not None:
            return _time(row.committed_at) - timedelta(seconds=1)
        if row.written_at is not None:
            return _time(row.written_at) - _MARGIN
        if since is not None:
            return since
        if (made := _made(row.id)) is not None:
            return made - _MARGIN
        self._guessed = True
        return datetime.now(UTC) - _DAY

    def _state(self, topic: str, read: Mapping[str, TopicsRead]) -> str:
        """Empty where it was read to its end, or else why not."""
        sink = self._sink_name(topic)
        if sink not in self._sink.readers:
            return f"a sink of kind {self._sink.kinds.get(sink, sink)!r} cannot be read back"
        found = read[sink]
        return found.failed or ("" if found.done else "it took too long")

    def _copy(self, found: Found) -> RowCopy:
        topic = sink_and_topic(found.topic)[1] if self._sink.names else found.topic
        sink = self._sink.sink_of(found.topic)
        where = found.partition, found.offset, found.timestamp_ms
        return RowCopy(sink, topic, *where, found.position, found.replayed)


def _told(state: Mapping[str, str], *, complete: bool) -> str:
    """`state`: topic -> why it was not read to its end. `complete`: it was found wherever it is due."""
    left = {topic: why for topic, why in state.items() if why}
    if complete or (state and not left):
        return DONE
    if not state:
        return "not possible: no rule says which topic has it; name one"
    whys = "; ".join(dict.fromkeys(left.values()))
    if len(left) == len(state):
        return f"not possible: {whys}"
    return f"not possible for {', '.join(left)}: {whys}"


def _made(id_: str) -> datetime | None:
    """When an id was made, if it says so: a UUID of version 7 begins with the milliseconds."""
    try:
        found = UUID(id_)
    except ValueError:
        return None
    return _time((found.int >> 80) * 1000) if found.version == 7 else None


def _time(microseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return _EPOCH + _DAY


def _clock(timestamp_ms: int) -> str:
    return f"{_time(timestamp_ms * 1000):%Y-%m-%d %H:%M:%S} UTC"
