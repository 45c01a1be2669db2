"""The oldest PostgreSQL that is supported, and one between it and those that the other tests run on."""

import json

import pytest

from tests.acceptance.conftest import Deploy
from tests.conftest import PostgresMaker
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.outbox import Event, Outbox


@pytest.mark.parametrize("major", [14, 17])
def test_every_supported_version_is_relayed_exactly_once_and_cleaned_up(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str, major: int
) -> None:
    """The shared servers are 15 and 18."""
    server = private_postgres(major=major)
    database = server.create_database()
    deployment = deploy(database, kafka, topic, delivery="exactly_once")
    findings = json.loads(deployment.command("doctor", "--json"))["findings"]
    assert [each for each in findings if each["verdict"] == "problem"] == []
    ids = deployment.write("1", "2")
    relay = deployment.start()
    with database.connect() as connection, connection.transaction():
        events = [Event(aggregate_type="thing", aggregate_id="a", type="Happened", payload=n) for n in range(3, 8)]
        ids.append(str(Outbox().emit(connection, events[0])))
        ids += map(str, Outbox().emit_many(connection, events[1:]))
    deployment.catch_up()
    relay.stop()
    ids += deployment.write("8")
    server.restart("immediate")
    deployment.start()
    deployment.catch_up()
    status = json.loads(deployment.command("status", "--json"))
    assert (status["slot"], status["active"]) == (deployment.slot_name, True)
    assert deployment.delivered_ids() == ids
    old = "SELECT bool_and(created_at < now() - interval '1 s') FROM outbox"
    wait_until(lambda: database.execute(old) == [(True,)], 10, "the events to be a second old")
    deployment.command("cleanup", "--older-than", "1s")
    assert database.execute("SELECT count(*) FROM outbox") == [(0,)]
    deployment.relays[-1].stop()
    wait_until(lambda: deployment.slot.pid is None, 10, "the slot to be free")
    deployment.command("drop", "--yes")
    assert server.slots(database.name) == set()
