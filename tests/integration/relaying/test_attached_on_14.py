"""PostgreSQL 14 skips events in a partition that had rows before it was attached: that is told, and they stay."""

import json
from pathlib import Path

import pytest

from tests.conftest import PostgresMaker
from tests.integration.operations.doctor.patient import Patient
from tests.integration.relaying.cleaning import AT_ONCE, clean, left
from tests.integration.relaying.harness import Outbox

PARTITIONED = """
CREATE TABLE outbox (
    id bigserial, aggregate_type text, aggregate_id text, type text, payload jsonb, headers jsonb, topic text,
    created_at timestamptz DEFAULT now(), day int NOT NULL
) PARTITION BY RANGE (day);
CREATE TABLE born PARTITION OF outbox FOR VALUES FROM (1) TO (2);
CREATE TABLE filled (LIKE outbox INCLUDING ALL);
"""


@pytest.mark.parametrize("major", [14, 17])
def test_events_that_the_server_may_pass_over_are_told_of_and_not_deleted(
    private_postgres: PostgresMaker, tmp_path: Path, major: int
) -> None:
    database = private_postgres(major=major).create_database()
    database.execute(PARTITIONED)
    outbox = Outbox(database, "text", outbox={"columns": {"created_at": "created_at"}}, **AT_ONCE)
    outbox.init()

    def write(what: str, table: str, day: int) -> None:
        database.execute(
            f"INSERT INTO {table} (aggregate_type, aggregate_id, type, payload, day)"
            " VALUES ('order', '1', 't', %s, %s)",
            [json.dumps(what), day],
        )

    with outbox.relay() as relay:
        write("born", "outbox", 1)
        write("elsewhere", "filled", 2)  # the stream meets the table before it is a partition
        database.execute("ALTER TABLE outbox ATTACH PARTITION filled FOR VALUES FROM (2) TO (3)")
        write("attached", "outbox", 2)
        write("last", "outbox", 1)
        values = outbox.values(relay)
        if major > 14:
            assert values == [b'"born"', b'"attached"', b'"last"']
            assert outbox.watcher.notices == []
            return
        assert values == [b'"born"', b'"last"'], "PostgreSQL 14 publishes it by now: see walrelay.postgres.parts"
        relay.wait_until(lambda: outbox.watcher.notices, "the relay to tell of the partition")
        outbox.init()  # which takes note of partitions that were attached
        assert any("filled was attached" in note for note in clean(outbox).notes)
    assert "public.filled was attached as a partition: PostgreSQL 14 may skip" in outbox.watcher.notices[0]
    assert left(outbox) == ["attached", "elsewhere"]
    patient = Patient(tmp_path, outbox.wiring.dsn, source={"slot": outbox.settings.source.slot})
    complaint = patient.complaint("partitions")
    assert complaint.verdict == "warning"
    assert complaint.fix.startswith("walrelay audit")
    for day in range(3, 6):
        database.execute(f"CREATE TABLE day{day} (LIKE outbox INCLUDING ALL)")
        database.execute(f"ALTER TABLE outbox ATTACH PARTITION day{day} FOR VALUES FROM ({day}) TO ({day + 1})")
    named = "public.day3, public.day4, public.day5 and 1 more were attached as partitions"
    assert patient.complaint("partitions").detail.startswith(named)
