"""The installed `walrelay init --backfill` against PostgreSQL and Kafka: no gap and no repetition, whatever happens."""

from collections import Counter
from time import monotonic

import pytest

from tests.acceptance.backfill_process import BackfillProcess
from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment
from tests.acceptance.writing import Writers
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.waiting import wait_until
from walrelay.table.rows import BATCH_ROWS

MB = 2**20
COMMAND = ("init", "--backfill")


@pytest.fixture
def table(deployment: Deployment) -> Deployment:
    """A deployment whose table is there, and nothing else of it."""
    deployment.command("drop", "--yes")
    return deployment


@pytest.mark.parametrize("delivery", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.slow)])
def test_init_backfill_and_run_under_load_have_no_gap_and_no_repetition(table: Deployment, delivery: str) -> None:
    table.write_settings(delivery=delivery)
    table.write_rows(3_000)
    with Writers(table.database, seed=1) as writers:
        writers.wait_for_more(200)
        table.command(*COMMAND)
        relay = table.start()
        writers.wait_for_more(200)
        if delivery == "exactly_once":
            relay.kill()
            relay = table.start()
    table.catch_up()
    relay.stop()
    delivered = Counter(table.delivered_ids())
    committed = Counter(str(row) for (row,) in table.database.execute("SELECT id FROM outbox"))
    assert writers.acknowledged <= committed.keys()
    assert delivered == committed


def test_init_backfill_killed_again_and_again_loses_nothing_and_repeats_less_than_a_batch(
    table: Deployment, measured: Measured
) -> None:
    kills = 5
    table.write_rows(30_000)
    with Writers(table.database, seed=2) as writers:
        for _ in range(kills):
            BackfillProcess(table, *COMMAND).kill_after(BATCH_ROWS)
        table.command(*COMMAND)
        relay = table.start()
        writers.wait_for_more(100)
    table.catch_up()
    relay.stop()
    delivered = Counter(table.delivered_ids())
    committed = {str(row) for (row,) in table.database.execute("SELECT id FROM outbox")}
    assert delivered.keys() == committed
    repeated = delivered.total() - len(committed)
    measured(f"rows repeated by {kills} kills of a backfill", repeated)
    assert repeated <= kills * BATCH_ROWS


@pytest.mark.parametrize(("rows", "padding"), [(200_000, 200), (400, 500_000)])
def test_a_large_table_is_backfilled_in_bounded_memory(
    table: Deployment, measured: Measured, rows: int, padding: int
) -> None:
    table.write_rows(rows, padding=padding)
    process, peak, begun = BackfillProcess(table, *COMMAND), 0, monotonic()

    def ended() -> bool:
        nonlocal peak
        peak = max(peak, process.peak_rss_bytes)
        return not process.running

    wait_until(ended, 60, "the backfill to end")
    assert process.wait() == 0, process.output()
    measured(f"rows/s of a backfill of {rows} rows, with its start", round(rows / (monotonic() - begun)))
    measured(f"peak memory of a backfill of {rows} rows, MB", round(peak / MB))
    assert 0 < peak < 150 * MB
    assert len(set(table.delivered_ids())) == rows


def test_the_order_of_each_key_is_that_of_its_commits_from_the_table_to_the_stream(table: Deployment) -> None:
    """The writers lock a key's row before they take the time, so created_at follows the commits of a key."""
    with Writers(table.database, seed=3) as writers:
        writers.wait_for_more(300)
        table.command(*COMMAND)
        table.start()
        writers.wait_for_more(300)
    table.catch_up()
    assert assert_delivered(table, writers).duplicates == 0


def test_a_backfill_that_is_asked_to_stop_leaves_in_good_order_and_goes_on_later(table: Deployment) -> None:
    table.write_rows(30_000)
    process = BackfillProcess(table, *COMMAND)
    process.terminate_after(BATCH_ROWS)
    assert process.wait() == 1
    assert "run `walrelay init --backfill` again" in process.output()
    table.command(*COMMAND)
    delivered = table.delivered_ids()
    assert len(delivered) == len(set(delivered)) == 30_000


def test_a_row_that_the_broker_refuses_ends_the_backfill_and_is_named(table: Deployment) -> None:
    table.write("1")
    (unwelcome,) = table.write("2", topic="not/a/topic")
    process = BackfillProcess(table, *COMMAND)
    assert process.wait() == 1
    assert unwelcome in process.output()
    table.database.execute("UPDATE outbox SET topic = NULL")
    table.command(*COMMAND)
    assert set(table.delivered_ids()) >= {unwelcome}


def test_a_broker_that_is_away_is_waited_for_and_the_backfill_says_so(
    deploy: Deploy, database: Database, broker: KafkaServer
) -> None:
    deployment = deploy(database, broker, broker.create_topic())
    deployment.command("drop", "--yes")
    deployment.write_rows(20_000)
    process = BackfillProcess(deployment, *COMMAND)
    process.reaches(BATCH_ROWS)
    broker.stop()
    process.waits_for("the broker acknowledged nothing")
    broker.start()
    assert process.wait() == 0, process.output()
    assert len(set(deployment.delivered_ids())) == 20_000
