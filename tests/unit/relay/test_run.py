"""A run ends as its cause says, wherever PostgreSQL went away."""

from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from walrelay.errors import Fatal
from walrelay.observe import Observers, Retrying
from walrelay.relay.contract import NeverPaused
from walrelay.relay.run import Runs
from walrelay.supervise import Backoff
from walrelay.table.rows import until_finished


class Tries:
    """The first one breaks as psycopg says it, the second one ends."""

    published, finished = 0, False

    def __init__(self) -> None:
        self._left: list[Exception] = [
            psycopg.OperationalError("server closed the connection unexpectedly"),
            Fatal("no"),
        ]

    def run(self) -> Any:
        raise self._left.pop(0)


class Heard(Observers):
    """What was seen."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def saw(self, happening: Any) -> None:
        self.heard.append(happening)


def test_a_connection_that_breaks_at_a_question_whose_errors_nobody_translates_is_made_again() -> None:
    observer, stop = Heard(), Event()
    factories = SimpleNamespace(
        stream=Tries().run, refusals=lambda: None, refuse_connection=lambda cause: None, pausing=NeverPaused
    )
    wiring = SimpleNamespace(exactly_once=False)
    runs = Runs(cast(Any, wiring), cast(Any, factories), observer)
    with pytest.raises(Fatal, match="no"):
        runs.until(stop.is_set, stop.wait, Backoff(0.001, 0.001))
    assert [str(each.cause) for each in observer.heard if isinstance(each, Retrying)] == [
        "the connection to PostgreSQL broke: server closed the connection unexpectedly"
    ]


def test_the_same_while_rows_of_the_table_are_published() -> None:
    observer = Heard()
    with pytest.raises(Fatal, match="no"):
        until_finished(Tries(), Event(), Backoff(0.001, 0.001), observer)
    assert [type(each) for each in observer.heard] == [Retrying]
