"""Several instances with the same file: one leads, the others take over when it ends, dies or freezes."""

import json
import signal
from time import monotonic

from tests.acceptance.checking import Delivery, assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment
from tests.acceptance.writing import Writers
from tests.conftest import PostgresMaker
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

TAKEOVERS = 5


def takeovers(deployment: Deployment, seed: int, farewell: signal.Signals) -> tuple[list[float], Delivery]:
    """How many seconds each takeover took under load, from the leader's signal until the next one streams, in order of
    length; and what was delivered.
    """
    leader, standby = deployment.start(), deployment.launch()
    standby.wait_for("standing by")
    took = []
    with Writers(deployment.database, seed=seed, pause=0.01) as writers:
        for _ in range(TAKEOVERS):
            writers.wait_for_more(50)
            leader.send(farewell)
            sent = monotonic()
            standby.wait_for("streaming")
            took.append(round(monotonic() - sent, 3))
            assert leader.wait() == (0 if farewell == signal.SIGTERM else -farewell)
            leader, standby = standby, deployment.launch()
            standby.wait_for("standing by")
    deployment.catch_up()
    return sorted(took), assert_delivered(deployment, writers)


def test_a_standby_takes_over_in_less_than_a_second_when_the_leader_is_killed(
    deployment: Deployment, measured: Measured
) -> None:
    took, delivery = takeovers(deployment, 50, signal.SIGKILL)
    measured("takeover after kill -9, seconds", took)
    measured("after them", delivery)
    assert took[TAKEOVERS // 2] < 1


def test_sigterm_hands_over_in_less_than_a_second_and_repeats_nothing(
    deployment: Deployment, measured: Measured
) -> None:
    """A rolling deploy: the new instance is there before the old one is asked to go."""
    took, delivery = takeovers(deployment, 51, signal.SIGTERM)
    measured("handover after SIGTERM, seconds", took)
    assert delivery.duplicates == 0
    assert took[TAKEOVERS // 2] < 1


def test_a_standby_takes_over_from_a_frozen_leader_when_the_server_gives_it_up(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str, measured: Measured
) -> None:
    """At least once there is no fence: what the frozen one had queued it sends when it wakes up, before it notices."""
    server = private_postgres(wal_sender_timeout="2s")
    deployment = deploy(server.create_database(), kafka, topic)
    leader, standby = deployment.start(), deployment.launch()
    standby.wait_for("standing by")
    with Writers(deployment.database, seed=52) as writers:
        writers.wait_for_more(300)
        leader.send(signal.SIGSTOP)
        frozen = monotonic()
        standby.wait_for("streaming")
        measured("takeover from a frozen leader, seconds (wal_sender_timeout 2 s)", round(monotonic() - frozen, 1))
        writers.wait_for_more(300)
        leader.send(signal.SIGCONT)
        leader.wait_for("standing by")
        writers.wait_for_more(300)
    deployment.catch_up()
    measured("after a frozen leader woke up", assert_delivered(deployment, writers))


def test_status_shows_who_leads_and_who_stands_by(deployment: Deployment) -> None:
    leader = deployment.start()
    standbys = [deployment.launch() for _ in range(2)]
    for standby in standbys:
        standby.wait_for("standing by")
    wait_until(lambda: len(json.loads(deployment.command("status", "--json"))["standbys"]) == 2, 10, "both standbys")
    told = json.loads(deployment.command("status", "--json"))
    assert told["leader"]["pid"] == deployment.slot.pid
    shown = deployment.command("status")
    assert f"PID {deployment.slot.pid}" in shown
    assert "2 standing by" in shown
    leader.kill()
    wait_until(lambda: any(each.events("streaming") for each in standbys), 10, "one of them to lead")
    wait_until(lambda: len(json.loads(deployment.command("status", "--json"))["standbys"]) == 1, 10, "one standby")


def test_whoever_stands_by_can_be_stopped(deployment: Deployment) -> None:
    leader, standby = deployment.start(), deployment.launch()
    standby.wait_for("standing by")
    standby.stop(5)
    assert standby.events("streaming") == []
    assert leader.running
