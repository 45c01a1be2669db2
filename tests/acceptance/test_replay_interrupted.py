"""`walrelay replay` that does not get to its end at once: killed, stopped, refused, without a broker."""

import os
import re
import signal
import time
from collections import Counter
from threading import Event

import pytest

from tests.acceptance.backfill_process import BackfillProcess
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment, event_id
from tests.acceptance.replaying import publish_orders, replayed, replays, values
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.waiting import wait_until
from walrelay import compose
from walrelay.config import load
from walrelay.observe import Observers
from walrelay.operations.replay import ReplayRequest, plan_replay, run_replay
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.snapshot import View


@pytest.fixture
def published(deployment: Deployment) -> Deployment:
    publish_orders(deployment)
    return deployment


def test_a_replay_killed_again_and_again_goes_on_and_repeats_a_batch_at_most(
    deployment: Deployment, measured: Measured
) -> None:
    deployment.write_rows(20_000)
    deployment.start()
    deployment.catch_up()
    kills = 3
    for number in range(1, kills + 1):
        process = BackfillProcess(deployment, "replay", "--from", "1h", "--rate", "20000")
        wait_until(lambda number=number: replays(deployment) >= number * 3000, 30, "rows to be published")  # type: ignore[misc]
        process.kill()
    written_later = deployment.write("1")
    told = deployment.command("replay", "--from", "1h")
    assert "goes on" in told
    again = Counter(event_id(message) for message in replayed(deployment))
    committed = {str(row) for (row,) in deployment.database.execute("SELECT id FROM outbox")} - {*written_later}
    assert again.keys() == committed, "nothing is lost, and what came later is not part of it"
    measured(f"rows repeated by {kills} kills of a replay", again.total() - len(again))
    assert again.total() - len(again) <= kills * 2000
    assert replays(deployment) == 0
    assert "no replay was interrupted" in deployment.command("replay", "--list")


def test_a_replay_that_is_asked_to_stop_repeats_nothing_and_is_listed_dropped_or_begun_anew(
    published: Deployment,
) -> None:
    published.write_rows(200)
    published.catch_up()
    process = BackfillProcess(published, "replay", "--all", "--rate", "20", "--name", "slow")
    wait_until(lambda: replays(published) >= 20, 30, "rows to be published")
    process.interrupt()
    assert process.wait() == 1
    assert "walrelay replay --name slow" in process.output()
    stopped = len(replayed(published))
    assert 20 <= stopped < 100
    assert re.search(rf"slow .* {stopped} rows published", published.command("replay", "--list"))
    refused = BackfillProcess(published, "replay", "--type", "Paid", "--name", "slow")
    assert refused.wait() == 1
    assert "of other rows" in refused.output()
    published.command("replay", "--name", "slow")
    ids = [event_id(message) for message in replayed(published)]
    assert len(ids) == len(set(ids)) == 204


def test_restart_begins_a_replay_anew_and_drop_forgets_it(published: Deployment) -> None:
    published.write_rows(100)
    published.catch_up()
    process = BackfillProcess(published, "replay", "--all", "--rate", "20")
    wait_until(lambda: replays(published) >= 20, 30, "rows to be published")
    process.kill()
    (name,) = published.database.execute("SELECT name FROM walrelay.replays")[0]
    already = len(replayed(published))
    published.command("replay", "--all", "--restart")
    assert len(replayed(published)) == already + 104
    process = BackfillProcess(published, "replay", "--all", "--rate", "20")
    wait_until(lambda: replays(published) >= 20, 30, "rows to be published")
    process.kill()
    published.command("replay", "--drop", name)
    assert replays(published) == 0
    assert "(new)" in published.command("replay", "--all", "--dry-run")


def test_a_row_that_the_broker_refuses_stops_the_replay_and_is_named_and_nothing_is_lost(
    published: Deployment,
) -> None:
    published.command("replay", "--all", "--dry-run")
    (unwelcome,) = published.write("5")
    published.catch_up()
    published.database.execute("UPDATE outbox SET topic = 'not/a/topic' WHERE id = %s", [unwelcome])
    published.catch_up()
    process = BackfillProcess(published, "replay", "--all")
    assert process.wait() == 1
    assert unwelcome in process.output()
    published.database.execute("UPDATE outbox SET topic = NULL")
    published.command("replay", "--all", "--restart")
    assert values(replayed(published)) == {b"1", b"2", b"3", b"4", b"5"}


def test_a_broker_that_is_away_is_waited_for(deploy: Deploy, database: Database, broker: KafkaServer) -> None:
    deployment = deploy(database, broker, broker.create_topic())
    deployment.write_rows(3_000)
    deployment.start()
    deployment.catch_up()
    process = BackfillProcess(deployment, "replay", "--all", "--rate", "1500")
    wait_until(lambda: replays(deployment) >= 1500, 30, "rows to be published")
    broker.stop()
    process.waits_for("the broker acknowledged nothing")
    broker.start()
    assert process.wait() == 0, process.output()
    assert len({event_id(message) for message in replayed(deployment)}) == 3_000


def test_a_slow_replay_lets_go_of_its_snapshot_and_goes_on_behind_what_it_reached(
    published: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.operations.replay.run.READING", 0.1)
    monkeypatch.setattr("walrelay.operations.replay.run.SORTING", 0)
    published.write_rows(100)
    published.catch_up()
    wiring, snapshots = compose.wiring(load(published.config)), list[View]()
    plan = plan_replay(wiring, ReplayRequest(everything=True), time.sleep)

    class Counted(View):
        def __init__(self, dsn: str, beside: Catalog) -> None:
            super().__init__(dsn, beside)
            snapshots.append(self)

    monkeypatch.setattr("walrelay.operations.replay.run.View", Counted)
    assert run_replay(Event(), wiring, plan, 50, Observers())
    assert len(snapshots) >= 2, "of two seconds, in batches of one"
    ids = [event_id(message) for message in replayed(published)]
    assert len(ids) == len(set(ids)) == 104


def test_two_at_once_of_the_same_replay_exclude_each_other(published: Deployment) -> None:
    published.write_rows(100)
    published.catch_up()
    process = BackfillProcess(published, "replay", "--all", "--rate", "20")
    wait_until(lambda: replays(published) >= 1, 30, "rows to be published")
    os.kill(process.pid, signal.SIGSTOP)  # however long the second takes to start
    second = BackfillProcess(published, "replay", "--all")
    assert second.wait() == 1
    os.kill(process.pid, signal.SIGCONT)
    assert "another process is at work on replay" in second.output()
    assert process.wait() == 0, process.output()
    ids = [event_id(message) for message in replayed(published)]
    assert len(ids) == len(set(ids)) == 104
