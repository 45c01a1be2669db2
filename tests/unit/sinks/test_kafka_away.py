"""A cluster that is away before the relay has begun to publish exactly once."""

from contextlib import closing

import pytest

from tests.servers.ports import free_port
from tests.servers.waiting import wait_until
from walrelay.model import System
from walrelay.sinks.kafka.plugin import plugin as kafka

SECRET = {"sasl.password": "b"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Connect to ipv4#127.0.0.1:"),
        ({"security.protocol": "ssl"}, "Connect to ipv4#127.0.0.1:"),
        (
            {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "a", **SECRET},
            "Connect to",
        ),
    ],
)
def test_a_fence_waits_for_a_broker_that_is_away_and_says_why(options: dict[str, str], said: str) -> None:
    settings = kafka.settings.model_validate({"bootstrap_servers": f"127.0.0.1:{free_port()}", "options": options})
    assert kafka.exactly_once is not None
    with closing(kafka.exactly_once.open(settings, kafka.memory(), System("1", 1), "slot", None)) as sink:
        wait_until(lambda: not sink.fence() and said in sink.trouble() and sink.trouble(), 30, "why it waits")
