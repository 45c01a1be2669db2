"""A supervisor starts the relay again and again in front of a record that cannot be published: nothing is held back,
nothing is repeated.
"""

import json
import re
from collections import Counter
from typing import Any, NamedTuple

import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, header
from tests.acceptance.test_refusals import configure, text_of
from tests.integration.relaying.ways import WAYS, need
from tests.servers.database import Database
from tests.servers.topics import Kafka

GOOD = 50
DELIVERIES = ["at_least_once", "exactly_once"]


def ends(deployment: Deployment) -> str:
    """A process of the relay that ends at the culprit: what it says."""
    relay = deployment.start()
    assert relay.wait(60) == 1
    (fatal,) = relay.events("fatal")
    return str(fatal["error"])


def ids(deployment: Deployment, *topics: str) -> Counter[str]:
    """What consumers have seen so far."""
    return Counter(header(message, "id") for message in deployment.kafka.read_all(deployment.topic, *topics))


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("limit", ["the client's", "the topic's"])
@pytest.mark.parametrize("topic", [3], indirect=True)
def test_a_crash_loop_publishes_and_confirms_what_is_before_the_culprit_and_repeats_nothing(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, delivery: str, limit: str
) -> None:
    sink: dict[str, Any] = {"kind": "kafka"}
    if limit == "the topic's":
        configure(kafka, topic, {"max.message.bytes": "20000"})
    else:
        sink = {"options": {"message.max.bytes": 20_000}}
    deployment = deploy(database, kafka, topic, sink=sink, delivery=delivery)
    good = [deployment.write(str(number), key=str(number))[0] for number in range(GOOD)]
    end_of_good = deployment.position()
    (culprit,) = deployment.write(text_of(30_000))
    end_of_culprit = deployment.position()
    behind = [deployment.write(str(number), key=str(number))[0] for number in range(10)]
    first: Counter[str] | None = None
    for _ in range(3):
        assert f"record {culprit} at " in ends(deployment)
        assert end_of_good <= deployment.slot.confirmed < end_of_culprit
        seen = ids(deployment)
        assert set(good) <= set(seen), "good events were held back"
        first = first or seen
        assert seen == first, "a crash loop repeats"
        assert culprit not in seen
        if delivery == "exactly_once":
            assert seen == Counter(good)
    configure(kafka, topic, {"max.message.bytes": "40000"})
    deployment.write_settings(sink={"options": {"message.max.bytes": 40_000}})
    deployment.start()
    deployment.catch_up()
    assert set(ids(deployment)) == {*good, culprit, *behind}


class Culprit(NamedTuple):
    """A statement whose event cannot be published, what is said, and whether another route cures it, or a skip."""

    statement: str
    said: str
    routable: bool = False


MESSAGE = {"id": "culprit", "aggregate_type": "thing", "aggregate_id": "a", "payload": 1}
CULPRITS = {
    "a row that cannot be read": Culprit(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload) VALUES (NULL, 'thing', 'a', 'x', '1')",
        "has no id",
    ),
    "a row that no rule routes": Culprit(
        "SELECT walrelay.emit('thing', 'a', 'Happened', '1')", "has no tenant_id", routable=True
    ),
    "a message that cannot be read": Culprit(
        "SELECT pg_logical_emit_message(true, 'walrelay', '{}')", "is not an outbox record"
    ),
    "a message that no rule routes": Culprit(
        f"SELECT pg_logical_emit_message(true, 'walrelay', '{json.dumps(MESSAGE)}')",
        "has no tenant_id",
        routable=True,
    ),
}
IN_SHORT = {("a row that cannot be read", "at_least_once"), ("a row that no rule routes", "exactly_once")}
IN_SHORT |= {("a message that cannot be read", "exactly_once"), ("a message that no rule routes", "at_least_once")}
CASES = [
    pytest.param(culprit, delivery, marks=[] if (culprit, delivery) in IN_SHORT else [pytest.mark.chaos])
    for culprit in CULPRITS
    for delivery in DELIVERIES
]


@pytest.mark.parametrize(("culprit", "delivery"), CASES)
def test_a_crash_loop_before_what_cannot_be_read_or_routed_holds_nothing_back_and_repeats_nothing(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, culprit: str, delivery: str
) -> None:
    statement, said, routable = CULPRITS[culprit]
    others: dict[str, Any] = {"outbox": {"messages": {"prefix": "walrelay"}}, "route": {"topic": "{tenant_id}"}}
    if (culprit, delivery) == ("a row that cannot be read", "exactly_once"):  # here a transaction is one frame
        need("format1", database.server)
        others["source"] = WAYS["format1"]
    deployment = deploy(database, kafka, topic, delivery=delivery, **others)
    database.execute("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey, ALTER id DROP NOT NULL")
    good = [deployment.write(str(number), topic=topic)[0] for number in range(GOOD // 5)]
    end_of_good = deployment.position()
    inside = []
    with database.connect(autocommit=False) as connection:
        if delivery == "exactly_once":  # the position is inside of the culprit's transaction
            emitted = connection.execute("SELECT walrelay.emit('thing', 'a', 'x', '1', topic => %s)", [topic])
            inside = [str(id_) for (id_,) in emitted]
        connection.execute(statement.encode())
    end_of_culprit = deployment.position()
    behind = deployment.write("1", topic=topic)
    for _ in range(3):
        error = ends(deployment)
        assert said in error
        assert end_of_good <= deployment.slot.confirmed < end_of_culprit
        assert ids(deployment) == Counter([*good, *inside])
    if routable:
        deployment.write_settings(route={"topic": topic})
    else:
        (position,) = re.findall(r"[0-9A-F]+/[0-9A-F]+:\d+", error)
        deployment.command("skip", "--position", position, "--yes")
    deployment.start()
    deployment.catch_up()
    seen = ids(deployment)
    assert len(seen) == len([*good, *inside, *behind]) + routable
    assert all(seen[id_] == 1 for id_ in [*good, *inside, *behind])
