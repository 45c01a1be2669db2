"""A supervisor starts the relay again and again in front of a record that cannot be published: nothing is held back,
nothing is repeated.
"""

from collections import Counter
from typing import Any

import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, header
from tests.acceptance.test_refusals import configure, text_of
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
    sink: dict[str, Any] = {}
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
