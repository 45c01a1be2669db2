"""One pass of `walrelay cleanup`: what it holds up, how it is interrupted, and who may do it."""

from time import monotonic
from typing import Any

import psycopg
import pytest

from tests.integration.relaying.cleaning import AT_ONCE, clean, left, one_way, publish
from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox
from walrelay.errors import Fatal
from walrelay.operations.cleanup import CleanupRequest, Session, cleaning


@pytest.fixture
def outbox(make_outbox: OutboxMaker) -> Outbox:
    """Its relay tells at once how far an idle server got."""
    return make_outbox(**AT_ONCE)


@one_way
def test_a_dry_run_counts_what_then_goes_and_changes_nothing(outbox: Outbox) -> None:
    publish(outbox, *range(20))
    outbox.database.execute("UPDATE outbox SET created_at = now() - interval '8 days' WHERE payload::text::int < 7")
    with outbox.relay() as relay:
        relay.confirms(outbox.end_of_wal())
        week = 7 * 86_400
        told = clean(outbox, week, dry_run=True)
        assert left(outbox) == list(range(20))
        assert told.rows == clean(outbox, week).rows == 7
    assert left(outbox) == list(range(7, 20))


@one_way
def test_a_batch_holds_no_lock_that_a_writer_or_reader_waits_for(outbox: Outbox) -> None:
    publish(outbox, *range(10))
    with outbox.relay(), outbox.database.connect(autocommit=False) as writer:
        writer.execute("SELECT count(*) FROM outbox")
        outbox.write("open", connection=writer)  # its lock on the table is held for the whole pass
        assert clean(outbox).rows == 10
        writer.commit()


@one_way
def test_a_row_that_somebody_has_locked_is_passed_over_and_told(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.operations.cleanup.batches.ROW_PATIENCE", 0.02)
    monkeypatch.setattr("walrelay.operations.cleanup.batches._PAUSE", 0.001)
    publish(outbox, *(f"{number} {'x' * 1000}" for number in range(30)))
    with outbox.relay(), outbox.database.connect(autocommit=False) as other:
        other.execute("SELECT FROM outbox WHERE payload::text LIKE '\"0 %' FOR UPDATE")
        begun = monotonic()
        tally = clean(outbox)
        assert monotonic() - begun < 4  # a statement's own limit is 5 seconds
        assert 20 < tally.rows < 30
        assert left(outbox)[0].startswith("0 ")
        assert any("rows there are locked" in note for note in tally.notes)
        other.rollback()
        clean(outbox)
    assert left(outbox) == []


@one_way
def test_a_pass_that_is_stopped_goes_on_at_its_page(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.operations.cleanup.batches._FIRST", 1)
    monkeypatch.setattr("walrelay.operations.cleanup.batches._MOST", 1)
    publish(outbox, *(f"{number} {'x' * 1000}" for number in range(60)))
    reached: dict[str, int] = {}
    with outbox.relay():
        wish = CleanupRequest(0.0, pace=1)
        with cleaning(outbox.wiring, wish, lambda _: None, reached) as (steps, tally):
            for step in steps:
                if step.done == 3 and step.what.startswith("cleaning"):
                    break
        assert not tally.complete
        assert list(reached.values()) == [3]
        with cleaning(outbox.wiring, wish, lambda _: None, reached) as (steps, second):
            pages = [step.done for step in steps if step.what.startswith("cleaning")]
        assert pages[0] == 4
        assert tally.rows + second.rows == 60
        assert reached == {}


@one_way
def test_two_at_once_are_refused(outbox: Outbox) -> None:
    publish(outbox, 1)
    with outbox.relay(), Session(outbox.wiring.dsn) as session:
        session.alone(outbox.wiring.table)
        with pytest.raises(Fatal, match="another clean-up"):
            clean(outbox)


@one_way
def test_a_role_without_the_right_is_told_which(outbox: Outbox) -> None:
    role = f"r_{outbox.database.name}"
    publish(outbox, 1)
    database: Any = outbox.database
    database.execute(f"CREATE ROLE {role} LOGIN")
    try:
        database.execute(f"GRANT USAGE ON SCHEMA walrelay, public TO {role}")
        database.execute(f"GRANT SELECT ON walrelay.slots, outbox TO {role}")
        dsn = psycopg.conninfo.make_conninfo(database.dsn, user=role)
        with outbox.relay(), pytest.raises(Fatal, match="may not clean up") as caught:
            clean(outbox.under(source={"dsn": dsn}))
        assert "DELETE" in caught.value.hint
    finally:
        database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
