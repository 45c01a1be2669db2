"""Readers take turns, and one that delivers too little ends the run."""

from typing import cast

import pytest

from walrelay.errors import Fatal
from walrelay.lab.bench.readers import Reading, ReadingPlace
from walrelay.lab.bench.results import ThroughputRequest
from walrelay.lab.bench.throughput import taken
from walrelay.lab.screen import Screen

NOWHERE = cast(ReadingPlace, None)


class Fake:
    def __init__(self, name: str, events: int, turns: list[str]) -> None:
        self._name, self._events, self._turns = name, events, turns

    def read(self, place: ReadingPlace) -> Reading:
        self._turns.append(self._name)
        return Reading(self._events, 1.0, 0.1, None, 1)


def test_readings_alternate() -> None:
    turns = list[str]()
    readers = {name: Fake(name, 1000, turns) for name in ("limit", "null", "mock")}
    readings = taken(ThroughputRequest(events=1000, rounds=2), readers, NOWHERE, Screen(on_stderr=True))
    assert turns == ["limit", "null", "mock", "null", "mock", "limit"]
    assert {name: len(each) for name, each in readings.items()} == {"limit": 2, "null": 2, "mock": 2}


def test_a_drain_that_delivers_fewer_events_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    turns = list[str]()
    readers = {"null": Fake("null", 999, turns), "mock": Fake("mock", 1000, turns)}
    with pytest.raises(Fatal, match=r"null delivered 999 of 1,000 events: there is no number from such a run"):
        taken(ThroughputRequest(events=1000), readers, NOWHERE, Screen(on_stderr=True))
    assert turns == ["null"]
    assert "events/s" not in capsys.readouterr().err
