"""Relays that come and go by what each look finds; the looks come when the test says so."""

from collections.abc import Iterator, Mapping
from threading import Event, Thread

import pytest

from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.observe import Happening, Noticed
from walrelay.relay.roster import Roster
from walrelay.supervise import Stop

OVER = 10.0  # seconds: nothing here takes as long


class Played:
    """A roster whose looks find `places`, or raise `trouble`. A relay runs until it is stopped, unless its place is
    `absent` (it returns) or `broken` (it raises).
    """

    def __init__(self, **places: str) -> None:
        self.places: Mapping[str, str] = places
        self.trouble: Exception | None = None
        self.looks = 0
        self.may_look = Event()
        self.may_look.set()
        self.begun: list[str] = []
        self.may_leave = Event()  # those at the place `slow`
        self.running: set[str] = set()
        self.told: list[tuple[str, str]] = []
        self.ended: list[tuple[str, int]] = []
        self.stop, self.done = Stop(), list[bool]()
        roster = Roster(self.look, self.relay, self.tell, self.has_ended)
        self._thread = Thread(target=lambda: self.done.append(roster.run(places, 0.01, self.stop)))
        self._thread.start()

    def look(self) -> Mapping[str, str]:
        self.looks += 1
        self.may_look.wait(OVER)
        if self.trouble:
            raise self.trouble
        return self.places

    def relay(self, name: str, place: str, stop: Stop) -> None:
        self.begun.append(f"{name} {place}")
        if place == "broken":
            raise Fatal("it is broken")
        if place != "absent":
            self.running.add(f"{name} {place}")
            stop.wait()
            if place == "slow":
                self.may_leave.wait(OVER)
            self.running.remove(f"{name} {place}")

    def tell(self, name: str, happening: Happening) -> None:
        text = happening.text if isinstance(happening, Noticed) else type(happening).__name__
        self.told.append((name, text))

    def has_ended(self, name: str, error: Exception, others: int) -> None:
        self.ended.append((name, others))

    def wait_for(self, *running: str) -> None:
        wait_until(lambda: self.running == set(running), OVER, f"{running} to run, and not {self.running}")

    def wait_for_looks(self) -> None:
        """Two more: the second begins when all is done about the first."""
        seen = self.looks
        wait_until(lambda: self.looks >= seen + 2, OVER, "looks")

    def leave(self) -> bool:
        self.stop.set()
        self._thread.join(OVER)
        assert self.running == set()
        (done,) = self.done
        return done


@pytest.fixture
def played() -> Iterator[Played]:
    playing = Played(a="x", b="x")
    yield playing
    playing.stop.set()


def test_what_a_look_finds_is_begun_and_what_it_does_not_find_any_more_is_stopped(played: Played) -> None:
    played.wait_for("a x", "b x")
    played.places = {"b": "x", "c": "x"}
    played.wait_for("b x", "c x")
    assert set(played.told) == {("c", "DatabaseFound"), ("a", "DatabaseGone")}
    assert played.begun.count("b x") == 1, "it goes on"
    assert played.leave()


def test_a_relay_whose_place_is_another_leaves_and_begins_there(played: Played) -> None:
    played.wait_for("a x", "b x")
    played.places = {"a": "y", "b": "x"}
    played.wait_for("a y", "b x")
    assert played.told == []
    assert played.leave()


def test_a_relay_that_leaves_slowly_holds_up_its_successor_alone(played: Played) -> None:
    played.wait_for("a x", "b x")
    played.places = {"a": "slow", "b": "slow"}
    played.wait_for("a slow", "b slow")
    played.places = {"a": "y", "c": "x"}
    played.wait_for("a slow", "b slow", "c x")
    played.wait_for_looks()
    assert played.begun.count("a y") == 0
    played.may_leave.set()
    played.wait_for("a y", "c x")
    assert played.leave()


def test_a_stop_waits_for_relays_that_leave_already(played: Played) -> None:
    played.places = {"a": "slow"}
    played.wait_for("a slow")
    played.places = {}
    played.wait_for_looks()
    played.stop.set()
    assert played.running == {"a slow"}
    played.may_leave.set()
    assert played.leave()


def test_a_look_that_fails_stops_nothing_and_is_told_once(played: Played) -> None:
    played.wait_for("a x", "b x")
    played.trouble = Fatal("the catalog is away")
    played.wait_for_looks()
    played.wait_for("a x", "b x")
    (told,) = played.told
    assert told == ("", "new databases cannot be looked for, and all relays go on: the catalog is away")
    played.trouble, played.places = None, {"a": "x"}
    played.wait_for("a x")
    assert played.leave()


def test_a_relay_that_could_not_begin_is_begun_again_after_each_look(played: Played) -> None:
    played.places = {"a": "x", "b": "x", "c": "absent"}
    wait_until(lambda: played.begun.count("c absent") > 2, OVER, "it to be tried again")
    assert played.told == [("c", "DatabaseFound")], "it is found once"
    assert played.leave()


def test_a_relay_that_ended_in_an_error_stays_ended_and_shows_in_the_result(played: Played) -> None:
    played.places = {"a": "x", "b": "x", "c": "broken"}
    wait_until(lambda: len(played.ended) > 2, OVER, "it to be told again")
    assert set(played.ended) == {("c", 2)}
    assert played.begun.count("c broken") == 1
    assert not played.leave()


def test_one_that_ended_in_an_error_is_forgotten_when_it_is_gone(played: Played) -> None:
    played.places = {"a": "x", "c": "broken"}
    wait_until(lambda: played.ended, OVER, "it to end")
    played.places = {"a": "x"}
    played.wait_for("a x")
    wait_until(lambda: ("c", "DatabaseGone") in played.told, OVER, "it to be gone")
    played.wait_for_looks()
    assert played.leave()


def test_a_stop_waits_for_no_look(played: Played) -> None:
    played.wait_for("a x", "b x")
    played.may_look.clear()
    seen = played.looks
    wait_until(lambda: played.looks > seen, OVER, "a look to begin")
    played.places = {"c": "x"}
    try:
        assert played.leave()
    finally:
        played.may_look.set()
    assert "c x" not in played.begun
