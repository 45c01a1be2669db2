"""A relay that somebody pauses, by SQL or by `walrelay pause`: nothing is published meanwhile, and nothing is lost."""

from pathlib import Path
from time import monotonic
from urllib.request import urlopen

import psycopg
import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.test_several_relays import together
from tests.acceptance.writing import Writers
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until


def pause(deployment: Deployment, terms: str = "pause_reason = 'a test'") -> None:
    """By SQL, as an operator does."""
    deployment.database.execute(
        f"UPDATE walrelay.relays SET paused = true, {terms} WHERE slot_name = %s", [deployment.slot_name]
    )


def resume(deployment: Deployment) -> None:
    deployment.database.execute(
        "UPDATE walrelay.relays SET paused = false WHERE slot_name = %s", [deployment.slot_name]
    )


def state(deployment: Deployment) -> str | None:
    rows = deployment.database.execute("SELECT state FROM walrelay.relays WHERE slot_name = %s", [deployment.slot_name])
    return rows[0][0] if rows else None


def await_state(deployment: Deployment, wanted: str) -> None:
    wait_until(lambda: state(deployment) == wanted, 30, f"{wanted!r} in walrelay.relays")


def is_paused(deployment: Deployment) -> bool:
    (row,) = deployment.database.execute(
        "SELECT paused FROM walrelay.relays WHERE slot_name = %s", [deployment.slot_name]
    )
    return bool(row[0])


def told_since(relay: RelayProcess) -> list[float]:
    """When the pause began, by the leader's metric."""
    port = relay.wait_for("listening")["port"]
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return [float(line.split()[-1]) for line in lines if line.startswith("walrelay_paused_timestamp_seconds{")]


def started(deployment: Deployment) -> RelayProcess:
    """A relay that streams, whose row is there."""
    relay = deployment.start()
    await_state(deployment, "streaming")
    return relay


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_pause_under_load_loses_and_repeats_nothing(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, delivery: str, measured: Measured
) -> None:
    deployment = deploy(database, kafka, topic, delivery=delivery)
    relay = started(deployment)
    with Writers(database, seed=91) as writers:
        for number in range(2):
            writers.wait_for_more(100)
            pause(deployment)
            updated = monotonic()
            paused = relay.wait_for("paused", more_than=number)
            measured(f"{delivery}: from UPDATE to paused, seconds", round(monotonic() - updated, 3))
            assert "a test" in paused["why"]
            assert "retains" in paused["cost"]
            published = len(deployment.delivered())
            confirmed = deployment.slot.confirmed
            assert deployment.slot.pid is None
            writers.wait_for_more(100)
            assert len(deployment.delivered()) == published
            assert deployment.slot.confirmed == confirmed
            resume(deployment)
            relay.wait_for("streaming", more_than=number + 1)
    deployment.catch_up()
    assert assert_delivered(deployment, writers).duplicates == 0
    await_state(deployment, "streaming")
    relay.stop()
    await_state(deployment, "stopped")


def test_a_pause_outlives_the_process_and_a_takeover(deployment: Deployment) -> None:
    deployment.write_settings(http={"listen": "127.0.0.1:0"})
    first = started(deployment)
    pause(deployment)
    first.wait_for("paused")
    second = deployment.launch()
    second.wait_for("standing by")
    first.kill()
    second.wait_for("paused")
    deployment.write("1")
    second.kill()
    third = deployment.launch()
    third.wait_for("paused")
    assert deployment.delivered() == []
    assert second.events("streaming") == third.events("streaming") == []
    assert told_since(third) == [
        pytest.approx(float(at), abs=0.001)
        for (at,) in deployment.database.execute("SELECT extract(epoch FROM paused_at) FROM walrelay.relays")
    ]
    resume(deployment)
    third.wait_for("streaming")
    deployment.catch_up()
    assert assert_delivered(deployment).duplicates == 0
    third.stop()


@pytest.mark.slow
def test_a_paused_relay_stops_and_reconnects(deployment: Deployment) -> None:
    relay = started(deployment)
    pause(deployment)
    relay.wait_for("paused")
    deployment.database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name LIKE 'walrelay%' AND pid <> pg_backend_pid()"
    )
    relay.wait_for("paused", more_than=1)
    deployment.write("1")
    resume(deployment)
    relay.wait_for("streaming", more_than=1)
    deployment.catch_up()
    assert assert_delivered(deployment).duplicates == 0
    pause(deployment)
    relay.wait_for("paused", more_than=2)
    relay.stop()
    assert is_paused(deployment)


@pytest.mark.slow
def test_a_pause_ends_at_its_time(deployment: Deployment) -> None:
    relay = started(deployment)
    pause(deployment, "paused_until = now() + interval '1 second'")
    relay.wait_for("paused")
    relay.wait_for("streaming", more_than=1)
    (over,) = relay.events("pause over")
    assert over["why"] == "its time has passed"
    assert not is_paused(deployment)
    deployment.write("1")
    deployment.catch_up()


@pytest.mark.slow
def test_at_its_limit_a_pause_ends(deployment: Deployment) -> None:
    relay = started(deployment)
    pause(deployment, "pause_limit = 1")
    relay.wait_for("pause over", containing="the limit was 1 bytes")
    deployment.write("1")
    deployment.catch_up()
    assert not is_paused(deployment)
    assert assert_delivered(deployment).events == 1


@pytest.mark.slow
def test_at_its_limit_a_pause_gives_the_slot_up_for_a_recovery(deployment: Deployment) -> None:
    relay = started(deployment)
    deployment.write("1", "2")
    deployment.catch_up()
    pause(deployment)
    relay.wait_for("paused")
    lost = deployment.write("3", "4")
    pause(deployment, "pause_limit = 1, at_pause_limit = 'drop_slot'")
    assert relay.wait() == 1
    (fatal,) = relay.events("fatal")
    assert "was dropped, as the pause" in fatal["error"]
    assert "walrelay recover" in fatal["hint"]
    await_state(deployment, "failed")
    assert not is_paused(deployment)
    assert "everything up to the position" in deployment.command("recover", "--dry-run")
    deployment.command("recover", "--yes")
    assert deployment.delivered_ids()[2:] == lost
    started(deployment)
    deployment.write("5")
    deployment.catch_up()
    assert assert_delivered(deployment).duplicates == 0


def test_of_two_relays_in_a_process_one_is_paused(
    tmp_path: Path, deploy: Deploy, database: Database, second: Database, kafka: Kafka
) -> None:
    orders, invoices = (deploy(each, kafka, kafka.create_topic()) for each in (database, second))
    relay = RelayProcess(together(tmp_path, orders=orders, invoices=invoices))
    orders.relays.append(relay)
    for deployment in (orders, invoices):
        await_state(deployment, "streaming")
    pause(orders)
    paused = relay.wait_for("paused")
    assert paused["relay"] == "orders"
    orders.write("1")
    invoices.write("1")
    invoices.catch_up()
    assert orders.delivered() == []
    resume(orders)
    orders.catch_up()
    assert assert_delivered(orders).events == 1
    relay.stop()


@pytest.mark.slow
def test_without_its_table_the_relay_runs(deployment: Deployment) -> None:
    deployment.database.execute("DROP TABLE walrelay.relays")
    relay = deployment.start()
    deployment.write("1")
    deployment.catch_up()
    relay.stop()
    assert relay.events("noticed") == []
    assert "walrelay.relays" in deployment.command("doctor", exit_code=None)
    assert "walrelay init" in deployment.said("pause", deployment.slot_name, exit_code=1)


THROWS = (
    "CREATE FUNCTION public.throws() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no report'; END $$;"
    " CREATE TRIGGER throws BEFORE INSERT OR UPDATE ON walrelay.relays FOR EACH ROW EXECUTE FUNCTION public.throws()"
)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["trigger", "columns", "locked"])
def test_whatever_happens_to_the_table_the_relay_goes_on(deployment: Deployment, fault: str) -> None:
    database = deployment.database
    with psycopg.connect(database.dsn) as blocking:
        if fault == "trigger":
            database.execute(THROWS)
        elif fault == "columns":
            database.execute("ALTER TABLE walrelay.relays DROP COLUMN state, DROP COLUMN paused CASCADE")
        else:
            blocking.execute("LOCK TABLE walrelay.relays")
        relay = deployment.start()
        for number in range(3):
            deployment.write(str(number))
            deployment.catch_up()
        relay.wait_for("noticed", containing="walrelay.relays")
        relay.stop()
    assert assert_delivered(deployment).duplicates == 0
