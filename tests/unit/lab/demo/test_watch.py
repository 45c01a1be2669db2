"""Watching the news: when it is over, what counts as lost, and whose failure is whose."""

import sys
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from tests.unit.lab.demo.orders import committed
from walrelay.errors import Fatal
from walrelay.lab.demo.ends import COUNTERS
from walrelay.lab.demo.events import Delivered, Failed, News, RolledBack, WriterDone
from walrelay.lab.demo.screen import DemoScreen
from walrelay.lab.demo.tour import Watch, relay_failure
from walrelay.lab.servers.backstage import Backstage, Child, Interruption

IDLE = "import time; time.sleep(60)"


@pytest.fixture
def backstage() -> Iterator[Backstage]:
    with Backstage(Interruption()) as backstage:
        yield backstage


@pytest.fixture
def news() -> News:
    news: News = SimpleQueue()
    for _ in COUNTERS:
        news.put(WriterDone())
    return news


def watch(news: News, relay: Child) -> Watch:
    return Watch(news, relay, DemoScreen(on_stderr=True).stream(2), patience=0.3)


def start(backstage: Backstage, code: str) -> Child:
    return backstage.start("the relay", [sys.executable, "-c", code])


def test_it_is_over_when_everything_committed_arrived(backstage: Backstage, news: News) -> None:
    for item in (committed("1", 0), Delivered("1", "A", 1, 1), RolledBack("2")):
        news.put(item)
    watching = watch(news, start(backstage, IDLE))
    watching.until_complete()
    result = watching.tally.result()
    assert (result.events, result.lost, result.rolled_back, result.uncommitted) == (1, 0, 1, 0)


def test_what_does_not_arrive_in_time_is_lost(backstage: Backstage, news: News) -> None:
    for item in (committed("1", 0), committed("2", 0), Delivered("1", "A", 1, 1)):
        news.put(item)
    watching = watch(news, start(backstage, IDLE))
    watching.until_complete()
    assert watching.tally.result().lost == 1


def test_what_arrives_after_the_relay_left_is_counted_too(backstage: Backstage, news: News) -> None:
    watching = watch(news, start(backstage, IDLE))
    watching.until_complete()
    news.put(Delivered("never committed", "A", 1, 1))
    watching.linger()
    assert watching.tally.result().uncommitted == 1


def test_the_greeting_is_not_counted(backstage: Backstage, news: News) -> None:
    news.put(Delivered("greeting", "greeting", 0, 1))
    watching = watch(news, start(backstage, IDLE))
    watching.until_greeted("greeting")
    assert watching.tally.result().uncommitted == 0


def test_a_relay_that_publishes_nothing_is_an_error(backstage: Backstage, news: News) -> None:
    with pytest.raises(Fatal, match=r"the relay published nothing within 0\.3 s"):
        watch(news, start(backstage, IDLE)).until_greeted("greeting")


def test_a_failure_says_whose_it_is(backstage: Backstage, news: News) -> None:
    news.put(Failed("the consumer", LookupError("offset out of range")))
    with pytest.raises(Fatal, match="the consumer failed: offset out of range"):
        watch(news, start(backstage, IDLE)).until_complete()


def test_a_relay_that_ended_is_noticed_with_its_own_words_and_hint(backstage: Backstage, news: News) -> None:
    line = '{"error": "slot lost", "hint": "make a new one", "event": "fatal"}'
    relay = start(backstage, f"import sys; sys.stderr.write({line!r}); sys.exit(1)")
    relay.wait(10)
    with pytest.raises(Fatal, match="the relay ended: slot lost") as caught:
        watch(news, relay).until_greeted("greeting")
    assert caught.value.hint == "make a new one"


def test_a_relay_without_last_words_is_quoted(backstage: Backstage) -> None:
    relay = start(backstage, "import sys; sys.exit('Traceback: out of memory')")
    relay.wait(10)
    assert "Traceback: out of memory" in str(relay_failure(relay))
