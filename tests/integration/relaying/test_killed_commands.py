"""Each command that publishes from the table is killed at each of its steps, and run again until it is complete.

Afterwards every topic has every message that is due to it, none that was given up, and none of a blocked key that
passes its dead letter.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from tests.integration.relaying.broker import Killed
from tests.integration.relaying.harness import Outbox
from tests.integration.relaying.test_recover import lose
from tests.integration.relaying.test_recover_destinations import letter, letters_of, values
from tests.servers.waiting import wait_until
from walrelay.operations.replay import ReplayPlan, ReplayRequest, plan_replay, run_replay
from walrelay.operations.replay.journal import ReplayJournal
from walrelay.table.backfill_journal import BackfillJournal

pytestmark = pytest.mark.parametrize("way", ["text"])  # the table is read in one way only

ROUTES = [{"name": "a", "continue": True, "topic": "a"}, {"name": "b", "topic": "b"}]
ROWS = range(1, 9)
Point = tuple[Any, Any, int]


def points(journal: type, *steps: str) -> list[Any]:
    """Before and after each step, and after some messages; all but a few take their time in the slow lane."""
    found: list[Point] = [(journal, step, when) for step in steps for when in (0, 1)]
    found += [(None, offered, 0) for offered in (0, 1, 2, 5)]
    quick: list[Point] = [(journal, "reached", 0), (journal, "finish", 0), (None, 1, 0)]
    return [point if point in quick else pytest.param(point, marks=pytest.mark.slow) for point in found]


@pytest.fixture
def outbox(make_outbox: Callable[..., Outbox], monkeypatch: pytest.MonkeyPatch) -> Outbox:
    """Eight rows for two topics. For topic a row 2 was discarded, and row 4 waits; row 6 has the key of row 4."""
    monkeypatch.setattr("walrelay.table.rows.BATCH_ROWS", 2)
    monkeypatch.setattr("walrelay.operations.replay.run.BATCH_ROWS", 2)
    outbox = make_outbox(routes=ROUTES, refusals={"policy": "dead_letter", "block_key": True})
    outbox.write(*ROWS)
    outbox.database.execute("UPDATE outbox SET aggregate_id = 'k' WHERE payload IN ('4', '6')")
    letter(outbox, 2, "discarded")
    letter(outbox, 4, "waiting")
    return outbox


@contextmanager
def killed_at(outbox: Outbox, point: Point, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """At that step of the journal, before or after it is done, or after so many messages of which the last alone is
    durable.
    """
    journal, step, after = point
    with monkeypatch.context() as patching:
        if journal is None:
            outbox.broker.break_after(step, Killed)
        else:
            done = getattr(journal, step)

            def dies(*arguments: Any, **named: Any) -> Any:
                if after:
                    done(*arguments, **named)
                raise Killed

            patching.setattr(journal, step, dies)
        with pytest.raises(Killed):
            yield
    if journal is None and step:
        outbox.broker.durable.append(outbox.broker.offered[-1])


@pytest.mark.parametrize("point", points(BackfillJournal, "begin", "made", "reached", "finish"))
@pytest.mark.parametrize("command", ["recover", "init --backfill"])
def test_a_recovery_or_backfill_killed_at_any_step_publishes_what_is_due_and_no_more(
    outbox: Outbox, command: str, point: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(outbox)
    if command != "recover":
        outbox.database.execute("DELETE FROM walrelay.slots")
    run: Callable[[], object] = outbox.recover if command == "recover" else outbox.backfill
    with killed_at(outbox, point, monkeypatch):
        run()
    if point[1:] != ("finish", 1):  # then it was complete
        run()
    published = {topic: {*map(int, found)} for topic, found in values(outbox).items()}
    assert published == {"a": {*ROWS} - {2, 4, 6}, "b": {*ROWS}}
    assert sorted(letters_of(outbox)) == [("2", "discarded"), ("4", "waiting"), ("6", "blocked")]
    assert outbox.database.execute("SELECT backfill FROM walrelay.slots") == [(None,)]


@pytest.mark.parametrize("point", points(ReplayJournal, "begin", "reached", "finish"))
def test_a_replay_killed_at_any_step_publishes_what_is_due_and_no_more(
    outbox: Outbox, point: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confirmed() -> ReplayPlan | None:
        outbox.database.execute(
            "SELECT pg_replication_slot_advance(%s, pg_current_wal_insert_lsn())", [outbox.settings.source.slot]
        )
        plan = plan_replay(outbox.wiring, ReplayRequest(everything=True), Event().wait)
        return None if plan.unconfirmed else plan

    def run() -> None:
        plan = wait_until(confirmed, 30, "all rows to be confirmed")
        assert plan is not None
        assert run_replay(Event(), outbox.wiring, plan, None, outbox.watcher)

    with killed_at(outbox, point, monkeypatch):
        run()
    if point[1:] != ("finish", 1):
        run()
    published = {topic: {*map(int, found)} for topic, found in values(outbox).items()}
    assert published == {"a": {*ROWS} - {2, 4}, "b": {*ROWS}}, "row 6 has no dead letter of its own"
    assert outbox.database.execute("SELECT count(*) FROM walrelay.replays") == [(0,)]
