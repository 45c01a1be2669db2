"""`retention` in the settings: the relay that leads cleans up, and `walrelay cleanup` does it by hand."""

import json
import signal
import subprocess

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY
from tests.acceptance.writing import Writers
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until


def rows(deployment: Deployment) -> int:
    ((count,),) = deployment.database.execute("SELECT count(*) FROM outbox")
    return int(count)


@pytest.fixture
def cleaning(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Deployment:
    return deploy(database, kafka, topic, retention="1s")


def test_the_leader_deletes_what_is_published_and_old_while_writers_write(cleaning: Deployment) -> None:
    relay = cleaning.start()
    with Writers(cleaning.database, seed=70) as writers:
        writers.wait_for_more(300)
        cleaned = relay.wait_for("cleaned up")
        writers.wait_for_more(100)
    assert cleaned["rows"] > 0
    wait_until(lambda: rows(cleaning) == 0, 20, "the table to be empty")
    relay.stop(10)
    assert relay.events("not cleaned up") == []
    delivered = cleaning.delivered_ids()
    assert len(delivered) == len(set(delivered))
    assert writers.acknowledged <= set(delivered)


def test_a_standby_cleans_up_when_it_leads_and_not_before(deployment: Deployment) -> None:
    leader = deployment.start()
    deployment.write_settings(retention="1s")
    standby = deployment.launch()
    standby.wait_for("standing by")
    deployment.write_rows(100)
    deployment.catch_up()
    standby.lives_for(3)  # longer than a leader takes
    assert rows(deployment) == 100
    leader.kill()
    standby.wait_for("cleaned up")
    assert rows(deployment) == 0
    assert_delivered_once(deployment, 100)


def assert_delivered_once(deployment: Deployment, count: int) -> None:
    ids = deployment.delivered_ids()
    assert len(ids) == len(set(ids)) == count


def test_a_clean_up_that_cannot_be_done_is_told_and_harms_no_relay(cleaning: Deployment) -> None:
    cleaning.database.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no row may go'; END$$"
    )
    cleaning.database.execute("CREATE TRIGGER refuse BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()")
    relay = cleaning.start()
    cleaning.write_rows(50)
    told = relay.wait_for("not cleaned up")
    assert "no row may go" in told["why"]
    cleaning.write_rows(50)
    cleaning.catch_up()
    assert_delivered(cleaning)
    assert relay.events("retrying") == []
    cleaning.database.execute("DROP TRIGGER refuse ON outbox")
    wait_until(lambda: rows(cleaning) == 0, 20, "the next attempt")
    relay.stop(10)


def test_the_leader_makes_the_days_of_a_partitioned_outbox_ahead(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(database, kafka, topic)
    deployment.command("drop", "--yes")
    deployment.database.execute("DROP TABLE outbox")
    deployment.command("init", "--partitioned")
    ((last,),) = deployment.database.execute(
        "SELECT max(relname) FROM pg_class WHERE relname ~ '^outbox_[0-9]+$' AND relkind = 'r'"
    )
    deployment.database.execute(f"DROP TABLE {last}")
    assert "partitions" in deployment.command("doctor")
    deployment.write_settings(retention="10s")
    relay = deployment.start()
    assert len(relay.wait_for("cleaned up")["made"]) == 1
    deployment.write_rows(10)
    deployment.catch_up()
    assert_delivered(deployment)
    relay.stop(10)


def test_the_command_deletes_what_it_counted_in_a_dry_run(deployment: Deployment) -> None:
    relay = deployment.start()
    deployment.write_rows(1000)
    told = json.loads(deployment.command("cleanup", "--older-than", "0.01s", "--dry-run", "--json"))
    assert (told["rows"], rows(deployment)) == (1000, 1000)
    assert "1000 rows deleted" in deployment.command("cleanup", "--older-than", "0.01s", "--pace", "1")
    assert rows(deployment) == 0
    deployment.catch_up()
    assert_delivered_once(deployment, 1000)
    relay.stop()


def test_without_a_duration_the_command_asks_for_one(deployment: Deployment) -> None:
    done = subprocess.run(
        [WALRELAY, "cleanup", "--config", deployment.config], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "--older-than 7d" in done.stderr
    assert "retention" in done.stderr


def test_ctrl_c_stops_it_after_the_current_batch(deployment: Deployment) -> None:
    relay = deployment.start()
    deployment.write_rows(20_000, padding=200)
    deployment.catch_up()
    child = subprocess.Popen(
        [WALRELAY, "cleanup", "--older-than", "0.01s", "--pace", "0.01", "--config", deployment.config],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: rows(deployment) < 20_000, 20, "the first batch")
    child.send_signal(signal.SIGINT)
    told, complaints = child.communicate(timeout=20)
    assert child.returncode == 1
    assert f"{20_000 - rows(deployment)} rows deleted" in told
    assert "stopped before the end" in complaints
    assert 0 < rows(deployment) < 20_000
    relay.stop()
