"""A clean-up deletes by what holds when it deletes: the world changes after the pass has asked."""

from typing import Any

import pytest

from tests.integration.relaying.cleaning import AT_ONCE, clean, left, publish
from tests.integration.relaying.harness import Outbox
from tests.integration.relaying.test_cleanup_days import DAY, ago, init, past, table, tables, write
from tests.servers.database import Database
from walrelay.errors import Fatal
from walrelay.operations.cleanup import CleanupStep
from walrelay.operations.cleanup.cleanup import PartitionDays
from walrelay.postgres.catalog import Catalog
from walrelay.table.backfill_journal import BackfillJournal, Scope

pytestmark = pytest.mark.parametrize("way", ["text"])  # the table is read in one way only


def begin_recovery(outbox: Outbox) -> None:
    """As `walrelay recover --replace --all` does it, before it publishes the rows of the table again."""
    with Catalog(outbox.wiring.dsn) as catalog:
        BackfillJournal(catalog, outbox.wiring.slot).begin(Scope("recover"), outbox.wiring.plugin)


@pytest.fixture
def outbox(database: Database, way: str) -> Outbox:
    fresh = Outbox(database, way, **AT_ONCE)
    fresh.init()
    return fresh


@pytest.fixture
def partitioned(database: Database, way: str) -> Outbox:
    fresh = Outbox(database, way, **AT_ONCE)
    init(fresh)
    return fresh


def test_rows_that_a_recovery_publishes_again_stay_once_it_has_begun(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.operations.cleanup.batches._FIRST", 1)
    monkeypatch.setattr("walrelay.operations.cleanup.batches._MOST", 1)
    publish(outbox, *(f"{number} {'x' * 1000}" for number in range(60)))
    kept = list[Any]()

    def at(step: CleanupStep) -> None:
        if step.what.startswith("cleaning") and step.done == 3:
            begin_recovery(outbox)
            kept.extend(left(outbox))

    with outbox.relay(), pytest.raises(Fatal, match="`walrelay recover` did not finish"):
        clean(outbox, at=at)
    assert 30 < len(kept) < 60
    assert left(outbox) == kept


def test_a_day_that_was_counted_stays_once_a_recovery_has_begun(
    partitioned: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes_before_the_drop(monkeypatch, lambda: begin_recovery(partitioned))
    past(partitioned, 5)
    write(partitioned, "published", 5)
    with partitioned.relay() as relay:
        partitioned.values(relay)
        with pytest.raises(Fatal, match="`walrelay recover` did not finish"):
            clean(partitioned, DAY)
    assert table(ago(5)) in tables(partitioned)


def test_a_day_that_was_attached_again_after_it_was_counted_is_not_dropped(
    partitioned: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = ago(5)

    def attach() -> None:
        partitioned.broker.withhold()
        partitioned.database.execute(
            f"ALTER TABLE outbox ATTACH PARTITION {table(day)} FOR VALUES FROM ('{day} 00:00+00') TO ('{day} 24:00+00')"
        )
        write(partitioned, "not published", 5)

    changes_before_the_drop(monkeypatch, attach)
    past(partitioned, 5)
    write(partitioned, "published", 5)
    with partitioned.relay() as relay:
        partitioned.values(relay)
        tally = clean(partitioned, DAY)
        assert tally.dropped == []
        assert any("was changed after its rows were counted" in note for note in tally.notes)
        assert left(partitioned) == ["not published", "published"]
        partitioned.broker.release()


def changes_before_the_drop(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Once, after the rows of the detached day were counted and found to be published."""
    done, changed = PartitionDays._done, list[bool]()

    def late(self: PartitionDays, *statements: str, **given: Any) -> bool:
        if statements[-1].startswith("DROP") and not changed:
            changed.append(True)
            change()
        return done(self, *statements, **given)

    monkeypatch.setattr(PartitionDays, "_done", late)
