"""Every command, the metrics, the health endpoint and the table say the same state of a relay, in each situation."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.test_pause import pause, resume
from tests.acceptance.watching import Watcher
from tests.brokers.nats import NatsStream
from tests.brokers.redis import RedisStream
from tests.brokers.webhook import WebhookPath
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from tests.servers.webhook import WebhookReceiver
from walrelay.cli import main


class Told(NamedTuple):
    """One answer about the relay."""

    state: str
    why: str
    todo: str


class Answers:
    """What is said of a relay in all places, at one moment or another."""

    def __init__(self, deployment: Deployment, relay: RelayProcess | None) -> None:
        self.deployment, self.relay = deployment, relay

    def all(self) -> dict[str, Told]:
        found = {"status": self._status(), "relays": self._relays(), "top": self._top()}
        return found | (self._process() if self.relay is not None else {})

    def agree(self, state: str, why: str, todo: str) -> dict[str, Told]:
        """Waits until all say that state, with that reason and that advice."""

        def agreed() -> dict[str, Told] | None:
            self.last = found = self.all()
            good = all(each.state == state and why in each.why and todo in each.todo for each in found.values())
            return found if good else None

        try:
            found = wait_until(agreed, 60, f"all to say {state!r}", interval=0.2)
        except AssertionError as error:
            error.add_note(f"they say {self.last}")
            raise
        assert found is not None
        return found

    def _json(self, *words: str) -> dict[str, Any]:
        ran = CliRunner().invoke(main, [*words, "--config", str(self.deployment.config)])  # a process takes a second
        found = json.loads(ran.stdout)
        assert isinstance(found, dict)
        return found

    def _status(self) -> Told:
        found = self._json("status", "--json")
        return Told(found["state"], found["why"], found["next"])

    def _relays(self) -> Told:
        found = self._json("relays", "--json")
        return Told(found["state"], found["why"], found["todo"])

    def _top(self) -> Told:
        found = self._json("top", "--json")
        return Told(found["state"], found["why"], found["todo"])

    def _process(self) -> dict[str, Told]:
        assert self.relay is not None
        watcher = Watcher(self.relay)
        _, found = watcher.health("/readyz")
        states = [name for name in STATES if watcher.metric("walrelay_state", state=name) == 1]
        health = Told(found["state"], found["why"], found["hint"])
        return {"health": health, "metrics": Told(states[0] if states else "", found["why"], found["hint"])}


STATES = "starting", "standing by", "streaming", "waiting", "paused", "retrying", "stopping", "stopped", "failed"


@pytest.fixture
def receiver(stoppable_webhook: WebhookReceiver) -> Iterator[WebhookReceiver]:
    yield stoppable_webhook
    stoppable_webhook.start()


@pytest.fixture
def watched(deploy: Deploy, database: Database, receiver: WebhookReceiver) -> Deployment:
    place = WebhookPath(receiver)
    return deploy(database, place, place.topic, http={"listen": "127.0.0.1:0"}, health={"stall_after": 5})


def row(deployment: Deployment) -> dict[str, Any]:
    ((found,),) = deployment.database.execute("SELECT to_jsonb(r) FROM walrelay.relays r")
    assert isinstance(found, dict)
    return found


def test_a_broker_that_is_away_is_what_the_relay_waits_for(watched: Deployment, receiver: WebhookReceiver) -> None:
    receiver.kill()
    relay = watched.start()
    watched.write("1")
    answers = Answers(watched, relay)
    told = answers.agree("waiting", "", "walrelay doctor")
    assert "start" not in " ".join(each.todo for each in told.values()).replace("restart", "")
    assert "by itself" in told["status"].todo
    written = row(watched)
    assert written["state"] == "waiting"
    assert written["last_error"] in told["relays"].why
    assert written["error_count"] == 1
    assert written["last_error_at"] is not None
    assert Watcher(relay).metric("walrelay_stalled") == 1
    Watcher(relay).turns(503, "sink", state="waiting")
    relay.rests()
    receiver.start()
    answers.agree("streaming", "", "")
    watched.catch_up()
    assert row(watched)["last_error"] == written["last_error"], "the last error is told, also when it is over"
    Watcher(relay).turns(200, "nobody", state="streaming")
    relay.stop()


@pytest.mark.parametrize("kind", ["nats", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("redis", "kafka"))])
def test_a_broker_away_at_the_start_is_waited_for_with_nothing_in_flight(
    request: pytest.FixtureRequest, deploy: Deploy, database: Database, kind: str
) -> None:
    server = request.getfixturevalue("broker" if kind == "kafka" else f"stoppable_{kind}")
    made = {"nats": NatsStream, "redis": RedisStream}
    place = server if kind == "kafka" else made[kind](server)
    topic = place.create_topic() if kind == "kafka" else place.topic
    deployment = deploy(database, place, topic, http={"listen": "127.0.0.1:0"}, health={"stall_after": 5})
    server.kill()
    try:
        relay = deployment.start()
        answers = Answers(deployment, relay)
        told = answers.agree("waiting", "", "walrelay doctor")
        assert "by itself" in told["status"].todo
        watcher = Watcher(relay)
        assert watcher.metric("walrelay_leader") == 1
        watcher.turns(503, "sink", state="waiting")
        deployment.write("1")
        wait_until(lambda: (watcher.metric("walrelay_lag_seconds") or 0) > 1, 30, "the lag to grow")
    finally:
        server.start()
    answers.agree("streaming", "", "")
    deployment.catch_up()
    assert row(deployment)["error_count"] >= 1
    relay.stop()


def test_a_broker_that_goes_away_and_is_silent_is_waited_for(watched: Deployment, receiver: WebhookReceiver) -> None:
    relay = watched.start()
    watched.write("1")
    watched.catch_up()
    os.kill(receiver.pid, signal.SIGSTOP)
    try:
        watched.write("2")
        answers = Answers(watched, relay)
        answers.agree("waiting", "", "walrelay doctor")
        relay.rests()
    finally:
        os.kill(receiver.pid, signal.SIGCONT)
    answers.agree("streaming", "", "")
    relay.stop()


def test_a_pause_and_a_stop_are_states_in_all_places(watched: Deployment) -> None:
    relay = watched.start()
    answers = Answers(watched, relay)
    answers.agree("streaming", "", "")
    relay.rests()
    pause(watched)
    answers.agree("paused", "a test", "walrelay resume")
    relay.rests()
    resume(watched)
    answers.agree("streaming", "", "")
    relay.stop()
    Answers(watched, None).agree("stopped", "no instance leads it", "walrelay")


def test_a_relay_that_was_killed_is_not_running(watched: Deployment) -> None:
    relay = watched.start()
    Answers(watched, relay).agree("streaming", "", "")
    relay.kill()
    Answers(watched, None).agree("not running", "no instance leads it", "walrelay")


def test_a_leader_that_reports_nothing_streams_and_its_pause_is_only_asked_for(watched: Deployment) -> None:
    relay = watched.start()
    answers = Answers(watched, None)
    answers.agree("streaming", "", "")
    watched.database.execute("UPDATE walrelay.relays SET state = 'stopped'")  # as an earlier version leaves it
    answers.agree("streaming", "", "")
    watched.database.execute(
        "ALTER TABLE walrelay.relays DISABLE TRIGGER notify_pause; UPDATE walrelay.relays SET paused = true,"
        " paused_at = now() - interval '1 minute'"
    )
    os.kill(relay.pid, signal.SIGSTOP)
    try:
        answers.agree("streaming", "has not reported", "earlier version")
    finally:
        os.kill(relay.pid, signal.SIGCONT)
    answers.agree("paused", "", "walrelay resume")
    relay.stop()


def test_a_slot_that_is_gone_is_told_in_all_places(watched: Deployment) -> None:
    watched.start().stop()
    watched.database.execute("SELECT pg_drop_replication_slot(%s)", [watched.slot_name])
    answers = Answers(watched, None)
    assert answers._relays().state == answers._top().state == "no slot"
    assert "does not exist" in watched.said("status", exit_code=1)
