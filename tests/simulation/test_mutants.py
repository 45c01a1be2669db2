"""What the schedules are worth: a run that is broken in one place is caught by the one that is for it."""

from contextlib import suppress
from math import inf
from typing import Any

import pytest
from confluent_kafka import KafkaException

from tests.simulation.clock import Clock
from tests.simulation.process import Process
from tests.simulation.slot import FusedSource
from tests.simulation.test_exactly_once import MakeWorld, commits_that_are_not_answered, make_world
from tests.simulation.test_runs import (
    KeepingWorld,
    held_and_resumed,
    held_too_long,
    kept_before_told,
    ousted_from_a_server_that_loses_wal,
    taken_over,
    zombies,
)
from tests.simulation.test_waiting import confirmed_soon, pushed_although_a_push_was_missed
from tests.simulation.world import World
from walrelay.lsn import LSN
from walrelay.model import RelayPosition
from walrelay.relay.run import Runs
from walrelay.sinks.kafka import transactions
from walrelay.sinks.kafka.transactional_producer import Turns
from walrelay.sinks.kafka.transactions import KafkaTransactions, _State
from walrelay.source.positions import OwnPositionKeeper

__all__ = ["make_world"]


class _Unfenced(KafkaTransactions):
    """Fences nobody off until it has something to publish."""

    _fences = False

    def fence(self) -> bool:
        return True

    def _begin(self) -> bool:
        self._fences = self._fences or super().fence()
        return self._fences and super()._begin()


@pytest.mark.parametrize("kind", ["process_dies", "another_one_leads"])
def test_a_run_without_the_fence_publishes_twice(make_world: MakeWorld, kind: str) -> None:
    def unfenced(*args: Any, **sizes: int) -> Any:
        world = make_world(*args, **sizes)
        world.sink_type = _Unfenced
        return world

    with pytest.raises(AssertionError, match=r"not what .* says"):
        zombies(unfenced, kind)


class _FencesOne(Turns):
    """Fences off each of the others only when its turn comes."""

    def fence(self) -> bool:
        everyone = self._unfenced
        self._unfenced = dict([*everyone.items()][:1])
        fenced, self._unfenced = super().fence(), everyone
        if fenced:
            del everyone[next(iter(everyone))]
        return fenced

    def next(self) -> Any:
        fenced = False
        while not fenced:
            with suppress(KafkaException):  # no answer in time
                fenced = super().fence()
        return super().next()


@pytest.mark.parametrize("kind", ["process_dies", "another_one_leads"])
def test_a_run_that_fences_off_one_of_several_producers_is_caught(
    make_world: MakeWorld, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "Turns", _FencesOne)
    with pytest.raises(AssertionError, match=r"not what .* says|sent before the group before it was done"):
        zombies(make_world, kind)


class _DoesNotWait(KafkaTransactions):
    """Takes a commit that was not answered for done: the next group begins, and is committed."""

    def _commit(self, timeout: float) -> None:
        super()._commit(timeout)
        if self._state is _State.COMMITTING and not self._broken and not self._failed:
            self._state, self._producer = _State.IDLE, self._turns.next()
            self._settled += self._group.committed()


class _GoesOn(KafkaTransactions):
    """After a commit that failed it goes on with the next group."""

    def _commit(self, timeout: float) -> None:
        super()._commit(timeout)
        if self._broken and not self._broken.fatal():
            self._broken, self._state, self._producer = None, _State.IDLE, self._turns.next()
            self._settled += self._group.committed()


@pytest.mark.parametrize("mutant", [_DoesNotWait, _GoesOn])
def test_a_group_that_does_not_wait_for_the_one_before_is_caught(
    make_world: MakeWorld, mutant: type[KafkaTransactions]
) -> None:
    def broken(*args: Any, **sizes: int) -> Any:
        world = make_world(*args, **sizes)
        world.sink_type = mutant
        return world

    with pytest.raises(AssertionError, match=r"not what .* says|sent before the group before it was done"):
        commits_that_are_not_answered(broken)


class _ConfirmsWhatIsHeld(FusedSource):
    """Tells PostgreSQL where the stream goes on, not up to where all is durable."""

    def start_stream(
        self, start: LSN, keeper: OwnPositionKeeper | None = None, *, confirmed: LSN | None = None, xmin: int = 0
    ) -> None:
        super().start_stream(start, keeper, xmin=xmin)


def test_a_run_that_resumes_by_the_wrong_position_confirms_what_is_lost(clock: Clock) -> None:
    with pytest.raises(AssertionError, match="is confirmed, but the broker does not have"):
        held_and_resumed(_with_source(World, _ConfirmsWhatIsHeld), clock, 0)


class _AlwaysGoesOn(FusedSource):
    def continues(self, remembered: RelayPosition, read: LSN) -> bool:
        return True


def test_a_run_that_resumes_although_another_instance_led_is_caught(clock: Clock) -> None:
    with pytest.raises(AssertionError, match="it broke at step"):
        taken_over(_with_source(World, _AlwaysGoesOn), clock, 0)


class _Remembers(Runs):
    """Keeps its bookmark while another instance leads."""

    def _leads(self, *args: Any) -> bool:
        bookmark = self.bookmark
        try:
            return super()._leads(*args)
        finally:
            self.bookmark = bookmark


class _Remembering(World):
    runs = _Remembers


def test_a_server_that_was_set_back_and_went_on_is_known_by_its_wal(clock: Clock) -> None:
    for seed in range(20):
        ousted_from_a_server_that_loses_wal(_Remembering, clock, seed)


def test_a_relay_that_believes_any_bookmark_passes_over_events_of_a_server_set_back(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.relay.retracing._retraced", lambda source, decoder, until, *_: until)
    with pytest.raises(AssertionError, match="is confirmed, but the broker does not have"):
        ousted_from_a_server_that_loses_wal(_Remembering, clock, 0)


def test_a_sink_that_is_held_past_its_time_publishes_while_another_instance_leads(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.relay.run._HOLD", inf)
    with pytest.raises(AssertionError, match="after another instance could lead"):
        held_too_long(World, clock, 0)


class _TellsFirst(FusedSource):
    """Tells PostgreSQL before the position is kept."""

    def confirm(self, lsn: LSN) -> bool:
        keeper, self._keeper = self._keeper, None
        try:
            told = super().confirm(lsn)
        finally:
            self._keeper = keeper
        if keeper is not None:
            keeper.keep(lsn, idle=False)
        return told


def test_a_run_that_confirms_before_the_position_is_kept_is_caught(clock: Clock) -> None:
    with pytest.raises(AssertionError, match=r"PostgreSQL was told .*, but only .* is kept"):
        kept_before_told(_with_source(KeepingWorld, _TellsFirst), clock, "process_dies", 0)


def test_a_relay_that_waits_for_frames_alone_confirms_too_late(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.relay.loop._IDLE_WAIT", (1_000.0, 1_000.0))
    with pytest.raises(AssertionError, match=r"does not look after what is settled|the relay did not call"):
        confirmed_soon(clock, range(20))


def test_a_relay_that_pushes_once_leaves_a_message_in_its_batch(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.publish.push._TRIES", 1)
    with pytest.raises(AssertionError, match="no end"):
        pushed_although_a_push_was_missed(clock)


def _with_source(world: type[World], source: type[FusedSource]) -> type[World]:
    """That world, whose processes read by `source`."""

    class Reading(Process):
        source_type = source

    class Broken(world):  # type: ignore[valid-type,misc]
        def process(self) -> Process:
            return Reading(self)

    return Broken
