"""PostgreSQL fails over under load: the relay goes on by itself on the standby that was promoted, and loses nothing."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.test_slot_lost import assert_fatal, assert_init_refuses
from tests.acceptance.writing import Writers
from tests.conftest import PostgresMaker, ProxyMaker, StandbyMaker
from tests.servers.proxy import Proxy
from tests.servers.standby import Pair
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.lsn import LSN

WITH_FAILOVER_SLOTS = 18


class Cluster(Protocol):
    """A primary with a standby: with failover slots and `synchronized_standby_slots`, or without either."""

    def __call__(self, major: int | None = None, *, failover: bool = True) -> Pair: ...


@pytest.fixture
def proxies(proxy: ProxyMaker) -> list[Proxy]:
    """The way from the standby to the primary, when there is one."""
    return []


@pytest.fixture
def cluster(
    private_postgres: PostgresMaker, standby_of: StandbyMaker, proxy: ProxyMaker, proxies: list[Proxy]
) -> Cluster:
    def make(major: int | None = None, *, failover: bool = True) -> Pair:
        primary = private_postgres(major=major)
        proxies.append(proxy(primary.port))
        standby = standby_of(primary, port=proxies[-1].port)
        if failover:  # on the standby, which was copied before, the setting would wait for a slot that it has not
            primary.configure(synchronized_standby_slots=standby.slot)
        return Pair(primary, standby)

    return make


def deployed(deploy: Deploy, pair: Pair, kafka: Kafka, topic: str, **source: Any) -> Deployment:
    """On the pair, with the DSN that leads to whichever server can be written to."""
    database = pair.create_database()
    return deploy(database, kafka, topic, source={"dsn": database.dsn, **source})


@pytest.mark.parametrize("delivery", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.slow)])
def test_a_standby_takes_over_and_nothing_was_published_that_it_does_not_have(
    deploy: Deploy, cluster: Cluster, proxies: list[Proxy], kafka: Kafka, topic: str, measured: Measured, delivery: str
) -> None:
    pair = cluster(WITH_FAILOVER_SLOTS)
    deployment = deployed(deploy, pair, kafka, topic, failover=True)
    deployment.write_settings(delivery=delivery)
    relay = deployment.start()
    with Writers(deployment.database, seed=40) as writers:
        writers.wait_for_more(300)
        pair.standby.wait_for_slot(deployment.slot_name)
        writers.wait_for_more(300)
        proxies[0].stall()  # the standby falls behind: what is committed from now on will be lost with the primary
        writers.wait_for_more(300)
        assert (
            "standby slot standby_1: its standby is" in json.loads(deployment.command("status", "--json"))["waits_for"]
        )
        crashed = time.monotonic()
        pair.fail_over()
        relay.wait_for("streaming", more_than=1)
        measured("seconds from the crash until it streams again, the promotion included", time.monotonic() - crashed)
        writers.wait_for_more(300)
    deployment.catch_up()
    kept = {event for (event,) in deployment.database.execute("SELECT id::text FROM outbox")}
    assert writers.acknowledged - kept, "the standby had everything, so nothing was tested"
    assert not writers.undone & kept
    after = assert_delivered(deployment)
    measured("after a failover", after)
    assert delivery == "at_least_once" or after.duplicates == 0
    measured("commits that the failover lost, none of them published", len(writers.acknowledged - kept))


@contextmanager
def hung(pair: Pair) -> Iterator[None]:
    """Meanwhile the standby gets no WAL (a busy disk, a slow network), but copies slots over its other connection."""
    ((walsender,),) = pair.primary.execute(
        "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", [pair.standby.slot]
    )
    os.kill(walsender, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(walsender, signal.SIGCONT)


def waits_or_is_past(deployment: Deployment, pair: Pair, relay: RelayProcess, position: str) -> None:
    """Returns when the relay waits for the standby, or the standby has the slot behind that record."""
    copied = "SELECT confirmed_flush_lsn > %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"

    def either() -> bool:
        waits = any("standby slot standby_1" in entry["cause"] for entry in relay.events("retrying"))
        return waits or pair.standby.execute(copied, [position.split(":")[0], deployment.slot_name]) == [(True,)]

    wait_until(either, 40, "the relay to wait, or the slot to be copied", interval=0.1)


def stops_at(relay: RelayProcess) -> str:
    """The position of the row that the relay cannot read."""
    assert relay.wait(40) == 1
    (fatal,) = relay.events("fatal")
    return str(fatal["error"].split(" at ")[1].split()[0])


def test_a_dead_letter_survives_a_failover_that_its_record_survives(
    deploy: Deploy, cluster: Cluster, kafka: Kafka, topic: str
) -> None:
    """It is written behind the record, and a standby copies the slot whether it has that or not."""
    pair = cluster(WITH_FAILOVER_SLOTS)
    deployment = deployed(deploy, pair, kafka, topic, failover=True)
    deployment.write_settings(refusals={"policy": "dead_letter"})
    relay = deployment.start()
    deployment.write("1")
    pair.standby.wait_for_slot(deployment.slot_name)
    deployment.catch_up()
    relay.send(signal.SIGSTOP)
    (poison,) = deployment.write("3", topic="walrelay.positions")  # where no event may go
    sent_past(pair, deployment.slot.pid, deployment.position())
    with hung(pair):  # what the server has sent meanwhile waits for the relay, and no more comes
        relay.send(signal.SIGCONT)
        waits_or_is_past(deployment, pair, relay, relay.wait_for("set aside", containing=poison)["position"])
        pair.fail_over()
    deployment.write("2")
    deployment.catch_up()
    (letter,) = [json.loads(line) for line in deployment.command("dlq", "export").splitlines()]
    assert (letter["id"], letter["attempts"]) == (poison, 1)
    assert list(dict.fromkeys(message.value for message in deployment.delivered())) == [b"1", b"2"]


@pytest.mark.slow
def test_a_pause_marks_and_the_clean_up_survive_a_failover(
    deploy: Deploy, cluster: Cluster, kafka: Kafka, topic: str
) -> None:
    """What was not published when the primary died stays in the table until it is."""
    pair = cluster(WITH_FAILOVER_SLOTS)
    marks = {"where": "marked IS NULL", "set": "marked = true"}
    deployment = deployed(deploy, pair, kafka, topic, failover=True)
    deployment.write_settings(outbox={"mark_published": marks})
    database = deployment.database
    database.execute("ALTER TABLE outbox ADD marked bool")
    relay = deployment.start()
    deployment.write("1")
    deployment.catch_up()
    wait_until(lambda: database.execute("SELECT count(*) FROM outbox WHERE marked") == [(1,)], 30, "the mark")
    pair.standby.wait_for_slot(deployment.slot_name)
    deployment.command("pause", "--reason", "a test")
    relay.wait_for("paused")
    deployment.write("2", "3")
    pair.standby.catch_up()
    pair.fail_over()
    relay.wait_for("paused", more_than=1)
    deployment.write("4")
    assert [message.value for message in deployment.delivered()] == [b"1"]
    assert "to confirm" in deployment.said("cleanup", "--older-than", "0.01s", "--pace", "1", exit_code=1)
    assert database.execute("SELECT count(*) FROM outbox WHERE marked IS NULL") == [(3,)]
    deployment.command("resume")
    deployment.catch_up()
    wait_until(lambda: database.execute("SELECT count(*) FROM outbox WHERE marked IS NULL") == [(0,)], 30, "the marks")
    deployment.command("replay", "--all", "--yes")
    assert [message.value for message in deployment.delivered()] == [b"1", b"2", b"3", b"4"] * 2
    deployment.command("cleanup", "--older-than", "0.01s", "--pace", "1")
    assert database.execute("SELECT count(*) FROM outbox") == [(0,)]


def sent_past(pair: Pair, walsender: int | None, end: LSN) -> None:
    """Returns when the server has sent everything before `end`, which the standby has then."""
    sent = "SELECT sent_lsn >= %s::pg_lsn FROM pg_stat_replication WHERE pid = %s"
    wait_until(lambda: pair.primary.execute(sent, [str(end), walsender]) == [(True,)], 20, "the record to be sent")


@pytest.mark.chaos
def test_a_row_is_passed_over_once_the_standby_knows_that_it_is_to_be(
    deploy: Deploy, cluster: Cluster, kafka: Kafka, topic: str
) -> None:
    """`walrelay skip` keeps what is lost: that has to survive whatever the slot survives."""
    pair = cluster(WITH_FAILOVER_SLOTS)
    deployment = deployed(deploy, pair, kafka, topic, failover=True)
    deployment.database.execute("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey, ALTER id DROP NOT NULL")
    relay = deployment.start()
    deployment.write("1")
    pair.standby.wait_for_slot(deployment.slot_name)
    deployment.database.execute(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload) VALUES (NULL, 'x', 'a', 'y', '3')"
    )
    position = stops_at(relay)
    deployment.command("skip", "--position", position, "--yes")  # this waits for the standby itself
    deployment.database.execute("CREATE TABLE kept AS SELECT * FROM walrelay.dead_letters")
    deployment.database.execute("DELETE FROM walrelay.dead_letters")
    pair.standby.catch_up()
    with hung(pair):
        deployment.database.execute("INSERT INTO walrelay.dead_letters OVERRIDING SYSTEM VALUE SELECT * FROM kept")
        relay = deployment.launch()
        waits_or_is_past(deployment, pair, relay, position)
        pair.fail_over()
        assert stops_at(relay) == position
    deployment.command("skip", "--position", position, "--yes")
    deployment.start()
    deployment.write("2")
    deployment.catch_up()
    (letter,) = [json.loads(line) for line in deployment.command("dlq", "export").splitlines()]
    assert (letter["position"], letter["status"]) == (position, "skipped")


def test_a_dead_standby_that_is_waited_for_is_named_and_its_return_is_enough(
    deploy: Deploy, cluster: Cluster, kafka: Kafka, topic: str
) -> None:
    pair = cluster(WITH_FAILOVER_SLOTS)
    deployment = deployed(deploy, pair, kafka, topic, failover=True)
    relay = deployment.start()
    before = deployment.write("{}")
    deployment.catch_up()
    pair.standby.stop()
    held_up = deployment.write("{}")
    relay.wait_for("noticed", containing="no event comes until a standby has it")
    trouble = "standby slot standby_1: no standby is connected to it"
    wait_until(lambda: f"waits for       {trouble}" in deployment.command("status"), 10, "status to name the standby")
    assert json.loads(deployment.command("status", "--json"))["waits_for"] == trouble
    relay.lives_for(0.5)
    assert deployment.delivered_ids() == before
    pair.standby.start()
    deployment.catch_up()
    assert deployment.delivered_ids() == before + held_up
    assert len(relay.events("streaming")) == 1
    assert json.loads(deployment.command("status", "--json"))["waits_for"] == ""


def test_a_server_that_shuts_down_while_a_standby_is_away_ends_no_relay(
    deploy: Deploy, cluster: Cluster, kafka: Kafka, topic: str
) -> None:
    pair = cluster(WITH_FAILOVER_SLOTS)
    deployment = deployed(deploy, pair, kafka, topic, failover=True)
    relay = deployment.start()
    pair.standby.stop()
    held_up = deployment.write("{}")
    relay.wait_for("noticed", containing="no event comes until a standby has it")
    pair.primary.stop("fast", timeout=10)
    relay.wait_for("retrying", containing="which waited for a standby")
    pair.primary.start()
    pair.standby.start()
    deployment.catch_up()
    assert deployment.delivered_ids() == held_up


@pytest.mark.parametrize("major", [None, WITH_FAILOVER_SLOTS], ids=["any version", "PostgreSQL 18"])
def test_a_slot_that_no_standby_has_is_missed_after_a_failover_and_not_made_again(
    deploy: Deploy, cluster: Cluster, kafka: Kafka, topic: str, major: int | None
) -> None:
    pair = cluster(major, failover=False)
    deployment = deployed(deploy, pair, kafka, topic)
    relay = deployment.start()
    deployment.write("{}")
    deployment.catch_up()
    pair.standby.catch_up()
    pair.fail_over()
    unpublished = deployment.write("{}")
    assert_fatal(relay, "this relay read it on timeline 1: the standby that was promoted did not have the slot")
    ((system,),) = pair.execute("SELECT system_identifier::text FROM pg_control_system()")
    assert_fatal(deployment.launch(), f"does not exist on this server (system {system}, timeline 2); it was made at")
    assert_init_refuses(deployment)
    assert pair.slots() == set()
    assert len(deployment.delivered()) == 1
    assert unpublished[0] not in deployment.delivered_ids()
