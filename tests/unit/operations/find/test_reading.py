"""Reading topics back for some rows: what is found, when it ends, and what that says."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any, NamedTuple

import pytest

from walrelay.errors import Fatal
from walrelay.operations.find import FoundRows, RowQuestion, TracedRow, of_json, read_back
from walrelay.operations.find.copies import read_topics
from walrelay.publish import Found, ReadBack, Span
from walrelay.wiring import Policy

NOW = datetime.now(UTC)
ANY = RowQuestion()


def message(id_: str, topic: str = "t", offset: int = 0, **changes: Any) -> Found:
    found = Found(topic, 0, offset, int(NOW.timestamp() * 1000), b"k", id_, "0/10:0", replayed=False, letter=False)
    return found._replace(**changes)


def span(topic: str = "t") -> Span:
    return Span(topic, 0, 0, 0, 1, 1, None)


class FakeSink:
    """Topics of one sink, or of several by name."""

    def __init__(self, *messages: Found | Span, names: tuple[str, ...] = (), unreadable: str = "") -> None:
        self.names, self.kinds = names, {name: f"kind of {name}" for name in names or ("",)}
        self.asked: list[tuple[Sequence[str], int]] = []
        self.readers: dict[str, ReadBack] = {name: self._read for name in self.kinds if name != unreadable or not name}
        self._messages = messages

    def _read(self, topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
        self.asked.append((topics, since_ms))
        return iter([each for each in self._messages if each.topic in topics])

    def sink_of(self, topic: str) -> str:
        return topic.partition(":")[0] if self.names else "fake"


class FakeWiring(NamedTuple):
    sink: FakeSink
    policy: Policy = Policy()


def seen(sink: FakeSink, row: TracedRow, question: RowQuestion = ANY, **found: Any) -> tuple[TracedRow, str]:
    """The row, and all notices."""
    wiring: Any = FakeWiring(sink, found.pop("policy", Policy()))
    answer = read_back(wiring, question, FoundRows([row], **found), 5.0)
    return answer.rows[0], "\n".join(answer.notices)


def row(**changes: Any) -> TracedRow:
    return TracedRow("a", written_at=int(NOW.timestamp() * 1e6), due=("t",))._replace(**changes)


def test_a_message_in_the_topic_was_published() -> None:
    found, notices = seen(FakeSink(message("b"), message("a", offset=7), span()), row(behind="2 MB behind"))
    assert (found.state, found.why, found.read_back) == ("published", "its message is in the topic", "done")
    assert [(each.sink, each.topic, each.offset) for each in found.copies] == [("fake", "t", 7)]
    assert notices == ""


def test_what_is_not_in_its_topic_waits_and_what_should_be_there_is_told() -> None:
    waiting, _ = seen(FakeSink(span()), row(why="?", behind="2 MB behind"))
    assert (waiting.state, waiting.why) == ("waiting", "2 MB behind")
    published, _ = seen(FakeSink(span()), row(state="published", why="confirmed"))
    assert published.state == "published"
    assert published.why.startswith("confirmed, but t has no such message now")


def test_a_dead_letter_in_a_topic_is_one() -> None:
    letter = message("a", topic="letters", letter=True)
    found, _ = seen(FakeSink(letter, span(), span("letters")), row(), policy=Policy(topic="letters"))
    assert (found.state, found.copies, found.dead_letter is not None) == ("dead_letter", (), True)


def test_a_sink_that_cannot_be_read_is_told_beside_one_that_can() -> None:
    sink = FakeSink(message("a", topic="x:t"), span("x:t"), names=("x", "y"), unreadable="y")
    found, _ = seen(sink, row(due=("x:t", "y:t")))
    assert [(each.sink, each.topic) for each in found.copies] == [("x", "t")]
    assert found.read_back == "not possible for y:t: a sink of kind 'kind of y' cannot be read back"


@pytest.mark.parametrize(
    ("traced", "question", "since"),
    [
        (row(), RowQuestion(), NOW - timedelta(minutes=1)),
        (row(committed_at=int(NOW.timestamp() * 1e6)), RowQuestion(), NOW - timedelta(seconds=1)),
        (TracedRow("a", in_table=False), RowQuestion(since=NOW - timedelta(days=9)), NOW - timedelta(days=9)),
        (TracedRow("a", in_table=False), RowQuestion(), timedelta(days=1)),
        (
            TracedRow("019ab2c8-5c00-7000-8000-000000000000", in_table=False),
            RowQuestion(),
            datetime.fromtimestamp(0x019AB2C85C00 / 1000, UTC) - timedelta(minutes=1),
        ),
    ],
)
def test_topics_are_read_from_the_time_of_the_row(
    traced: TracedRow, question: RowQuestion, since: datetime | timedelta
) -> None:
    sink = FakeSink(span())
    asked_at = datetime.now(UTC)  # not NOW: other tests may have run for an hour since then
    _, notices = seen(sink, traced, question, topics=["t"])
    ((topics, since_ms),) = sink.asked
    assert topics == ["t"]
    due = since if isinstance(since, datetime) else asked_at - since
    assert abs(since_ms / 1000 - due.timestamp()) < 600
    assert ("a time to begin at" in notices) == (not traced.at and question.since is None and traced.id == "a")


def test_an_answer_is_the_same_after_a_way_as_json() -> None:
    copied, _ = seen(FakeSink(message("a", offset=7), span()), row(aggregate_id="\udcff", type="Placed"))
    answer = FoundRows([copied, TracedRow("b", in_table=False)], "next", ["a notice"])
    assert of_json(json.loads(json.dumps(answer.as_json()))).as_json() == answer.as_json()


def test_a_row_without_a_topic_is_looked_for_nowhere() -> None:
    found, _ = seen(FakeSink(), row(due=()))
    assert found.read_back == "not possible: no rule says which topic has it; name one"


def test_a_reader_that_does_not_end_is_left() -> None:
    over = Event()

    def stuck(topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
        yield message("a")
        over.wait(60)

    read = read_topics({"": stuck}, {"": ["t"]}, 0, frozenset("ab"), {"b": ["t"]}, 0.2)[""]
    over.set()
    assert ([each.id for each in read.found], read.done, read.messages) == (["a"], False, 1)
    assert read.upto_ms == message("a").timestamp_ms


def test_reading_ends_soon_after_all_was_found() -> None:
    ended = Event()

    def endless(topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
        try:
            yield message("a")
            while True:
                yield message("other")
        finally:
            ended.set()

    read = read_topics({"": endless}, {"": ["t"]}, 0, frozenset("a"), {"a": ["t"]}, 60.0)[""]
    assert ([each.id for each in read.found], read.done) == (["a"], False)
    assert ended.wait(10)


def test_a_broker_that_cannot_be_read_is_told_and_a_bug_is_raised() -> None:
    def failing(error: Exception) -> ReadBack:
        def read(topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
            raise error
            yield

        return read

    sink = FakeSink()
    sink.readers = {"": failing(Fatal("no", hint="do"))}
    found, _ = seen(sink, row())
    assert found.read_back == "not possible: no"
    sink.readers = {"": failing(KeyError("x"))}
    with pytest.raises(KeyError):
        seen(sink, row())
