"""Pairs of features that no other test has together, in the installed command; tests/pairs.py says which."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_databases import Made, Tenants, made, tenants
from tests.acceptance.test_pause import await_state, is_paused, pause, resume, started
from tests.acceptance.test_refusals import configure
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

__all__ = ["made", "tenants"]

LARGE = f'"{"x" * 5000}"'  # bytes
SETTINGS: dict[str, Any] = {
    "delivery": "exactly_once",
    "refusals": {"policy": "dead_letter", "block_key": True},
    "outbox": {"mark_published": {"where": "marked IS NULL", "set": "marked = true"}},
}


def limit(kafka: Kafka, topic: str, size: int) -> None:
    configure(kafka, topic, {"max.message.bytes": str(size)})


def values(deployment: Deployment) -> list[bytes]:
    """The first two bytes of each message of key a, in order."""
    return [(message.value or b"")[:2] for message in deployment.delivered() if message.key == b"a"]


def unmarked(database: Database) -> int:
    ((count,),) = database.execute("SELECT count(*) FROM outbox WHERE marked IS NULL")
    return int(count)


@pytest.fixture
def strict(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Deployment:
    """Exactly once, with blocked keys and marks; the topic refuses what is large."""
    deployment = deploy(database, kafka, topic, **SETTINGS)
    database.execute("ALTER TABLE outbox ADD marked bool")
    limit(kafka, topic, 2000)
    return deployment


def test_a_pause_between_a_refusal_and_its_replay_costs_no_order(strict: Deployment) -> None:
    """An operator pauses, mends the cause and replays before the relay has committed what precedes the letter."""
    relay = started(strict)
    strict.write("1", LARGE, "3")
    relay.wait_for("set aside")
    pause(strict)
    relay.wait_for("paused")
    limit(strict.kafka, strict.topic, 1_000_000)
    strict.command("dlq", "replay", exit_code=None)
    strict.write("4")
    resume(strict)
    strict.catch_up()
    strict.command("dlq", "replay")
    assert values(strict) == [b"1", b'"x', b"3", b"4"]
    wait_until(lambda: unmarked(strict.database) == 0, 30, "the marks")
    relay.stop()


@pytest.mark.slow
def test_a_slot_given_up_at_the_limit_of_a_pause_keeps_letters_blocks_and_marks(strict: Deployment) -> None:
    relay = started(strict)
    strict.write("1", LARGE, "3")
    strict.catch_up()
    wait_until(lambda: unmarked(strict.database) == 2, 30, "the mark of the first")
    standby = strict.launch()
    standby.wait_for("standing by")
    pause(strict)
    relay.wait_for("paused")
    strict.write("4")
    strict.write("5", key="b")
    pause(strict, "pause_limit = 1, at_pause_limit = 'drop_slot'")
    assert relay.wait() == 1
    assert standby.wait() == 1, "it makes no slot, either"
    await_state(strict, "failed")
    assert "is gone" in strict.said("cleanup", "--older-than", "0.01s", exit_code=1)
    assert "walrelay recover" in strict.said("init", "--backfill", exit_code=1)
    limit(strict.kafka, strict.topic, 1_000_000)
    strict.command("recover", "--yes")
    assert (values(strict), len(strict.delivered())) == ([b"1"], 2), "the other key does not wait"
    relay = started(strict)
    strict.write("6")
    strict.catch_up()
    assert values(strict) == [b"1"]
    strict.command("dlq", "replay")
    assert values(strict) == [b"1", b'"x', b"3", b"4", b"6"]
    wait_until(lambda: unmarked(strict.database) == 0, 30, "the marks")
    strict.command("cleanup", "--older-than", "0.01s", "--pace", "1")
    assert strict.database.execute("SELECT count(*) FROM outbox") == [(0,)]
    relay.stop()


@pytest.mark.slow
def test_databases_of_several_instances_have_pauses_letters_marks_and_slots_of_their_own(
    tenants: Tenants, made: Made, kafka: Kafka
) -> None:
    first, second = databases = [made() for _ in range(2)]
    settings = yaml.safe_load(Path(tenants.config).read_text())
    settings["defaults"] |= SETTINGS
    settings["defaults"]["outbox"] = {**SETTINGS["outbox"], "max_message_bytes": 2**30}
    Path(tenants.config).write_text(yaml.safe_dump(settings))
    tenants.add(*databases)
    tenants.init()
    tenants.adopt(*databases)
    one, other = (tenants.of[each.name] for each in databases)
    for each in (one, other):
        each.config = tenants.config
        each.database.execute("ALTER TABLE outbox ADD marked bool")
    limit(kafka, first.name, 2000)
    instances = [tenants.run(), tenants.run()]

    wait_until(lambda: all(each.events("streaming") for each in instances), 60, "each instance to lead its share")
    pause(one)
    await_state(one, "paused")
    one.write("1", LARGE, "3")
    other.write("1")
    other.catch_up()
    assert one.delivered() == []
    (led,) = (each for each in instances if each.events("paused"))
    (left,) = (each for each in instances if each is not led)
    led.kill()
    left.wait_for("paused", containing=f'"relay": "{first.name}"')
    tenants.streams(left, second)
    assert (one.delivered(), is_paused(one)) == ([], True)
    resume(one)
    one.catch_up()
    assert values(one) == [b"1"]
    letters = [json.loads(line) for line in one.command("dlq", "list", "--json", "--relay", first.name).splitlines()]
    assert [each["status"] for each in letters] == ["waiting", "blocked"]
    assert other.command("dlq", "list", "--json", "--relay", second.name) == ""
    instances.append(tenants.run())
    wait_until(lambda: instances[-1].events("streaming"), 60, "the next instance to lead its share")
    left.kill()
    tenants.streams(instances[-1], *databases)
    one.write("4")
    one.catch_up()
    assert values(one) == [b"1"], "the next leader knows the blocked key"
    limit(kafka, first.name, 1_000_000)
    one.command("dlq", "replay", "--relay", first.name)
    wait_until(lambda: unmarked(first) == unmarked(second) == 0, 30, "the marks")
    one.command("replay", "--all", "--yes", "--relay", first.name)
    assert values(one) == [b"1", b'"x', b"3", b"4"] * 2
    one.command("cleanup", "--older-than", "0.01s", "--pace", "1", "--relay", first.name)
    assert [each.execute("SELECT count(*) FROM outbox") for each in databases] == [[(0,)], [(1,)]]
    pause(one)
    await_state(one, "paused")
    one.write("5")
    pause(one, "pause_limit = 1, at_pause_limit = 'drop_slot'")
    await_state(one, "failed")
    other.write("2")
    other.catch_up()
    instances[-1].send(signal.SIGTERM)
    assert instances[-1].wait() == 1, "one of its relays has failed"
    one.command("recover", "--yes", "--relay", first.name)
    third = made()
    tenants.add(third)
    tenants.init(third)
    one.command("drop", "--yes", "--relay", third.name)
    third.execute("ALTER TABLE outbox ADD marked bool")
    third.execute("SELECT walrelay.emit('thing', 'a', 'Happened', '7')")
    one.command("init", "--backfill", "--relay", third.name)
    instances.append(tenants.run())
    tenants.streams(instances[-1], *databases, third)
    one.write("6")
    one.catch_up()
    assert values(one)[8:] == [b"5", b"6"]
    assert values(other) == [b"1", b"2"]
    assert [message.value for message in kafka.read_all(third.name)] == [b"7"]
    wait_until(lambda: unmarked(third) == 0, 30, "the mark of the backfill")
    instances[-1].stop()
