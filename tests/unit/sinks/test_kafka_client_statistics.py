"""What librdkafka says of itself, as numbers that add up from run to run."""

import json
from collections.abc import Callable
from typing import Any, cast

from confluent_kafka import Producer

from tests.servers.waiting import wait_until
from walrelay.publish.plugins import SinkHandle
from walrelay.sinks.kafka import client_statistics
from walrelay.sinks.kafka.batching import BatchingHistory
from walrelay.sinks.kafka.client_statistics import ClientStatistics
from walrelay.sinks.kafka.plugin import plugin


def client(statistics: ClientStatistics, **counts: int) -> Callable[[str], None]:
    """What hears a client that has just said so much."""
    hear = cast(Callable[[str], None], statistics.options({})["stats_cb"])
    broker = {"nodeid": 1, "rtt": {"cnt": 3, "p50": 1_500, "p99": 20_000}, "throttle": {"cnt": 0}, **counts}
    hear(json.dumps({"msg_cnt": 7, "msg_size": 70, "brokers": {"b:1/1": broker, "bootstrap": {"nodeid": -1, "tx": 1}}}))
    return hear


def numbers(statistics: ClientStatistics) -> dict[str, Any]:
    return {name.removeprefix("walrelay_kafka_"): dict(each) for name, each in statistics.numbers().items()}


def test_nothing_is_told_before_a_client_has_told_something() -> None:
    statistics = ClientStatistics()
    assert numbers(statistics) == {}
    statistics.options({})
    assert numbers(statistics) == {}


def test_what_one_client_counted_after_the_other_adds_up_and_never_goes_back() -> None:
    statistics, before = ClientStatistics(), 0.0
    for run in range(100):
        client(statistics, tx=9, txretries=2, req_timeouts=1, disconnects=3)
        told = numbers(statistics)
        assert told["requests_total"][()] == 10 * (run + 1) > before
        before = told["requests_total"][()]
    assert (told["retries_total"], told["timeouts_total"], told["disconnects_total"]) == (
        {(): 200},
        {(): 100},
        {(): 300},
    )


def test_brokers_have_their_round_trips_in_seconds() -> None:
    statistics = ClientStatistics()
    client(statistics)
    told = numbers(statistics)
    assert told["broker_round_trip_seconds"] == {("b:1/1", "0.5"): 0.0015, ("b:1/1", "0.99"): 0.02}
    assert told["broker_throttle_seconds"] == {}, "it made nobody wait"
    assert (told["queue_messages"], told["queue_bytes"]) == ({(): 7}, {(): 70})


def test_the_queue_of_a_client_that_is_gone_is_no_queue() -> None:
    statistics = ClientStatistics()
    client(statistics, tx=4)
    statistics._texts[0].at -= 60
    told = numbers(statistics)
    assert (told["queue_messages"], told["broker_round_trip_seconds"], told["requests_total"]) == ({(): 0}, {}, {(): 5})


def test_there_are_not_more_brokers_than_can_be_read() -> None:
    statistics = ClientStatistics()
    hear = cast(Callable[[str], None], statistics.options({})["stats_cb"])
    brokers = {f"b:{number}": {"nodeid": number, "rtt": {"cnt": 1, "p50": 1, "p99": 1}} for number in range(1_000)}
    hear(json.dumps({"brokers": brokers}))
    assert len(numbers(statistics)["broker_round_trip_seconds"]) == 2 * 100


def test_an_operators_own_interval_stays_as_it_is() -> None:
    assert ClientStatistics().options({"statistics.interval.ms": 60_000}) == {}


def test_a_client_counts_where_somebody_watches_and_only_there() -> None:
    history = BatchingHistory()
    assert history.counted({"a": 1}) == {"a": 1}
    handle = SinkHandle("kafka", None, plugin)
    handle.watch()
    assert handle.client_numbers() == {}
    assert handle._memory.counted({"a": 1}).keys() == {"a", "statistics.interval.ms", "stats_cb"}


def test_librdkafka_has_the_members_that_are_read(monkeypatch: Any) -> None:
    monkeypatch.setattr(client_statistics, "INTERVAL_MS", 100)
    statistics = ClientStatistics()
    mock = {"test.mock.num.brokers": 1, "bootstrap.servers": "", "log_level": 0}
    producer = Producer({**mock, **statistics.options({})})
    producer.produce("t", b"x")

    def told() -> dict[str, Any]:
        producer.poll(0.05)
        found = numbers(statistics)
        return found if found.get("broker_round_trip_seconds") else {}

    found = wait_until(told, 60, "a round trip", interval=0)
    assert {quantile for _, quantile in found["broker_round_trip_seconds"]} == {"0.5", "0.99"}
    assert found["requests_total"][()] > 0
    assert {*found} == {
        "queue_messages",
        "queue_bytes",
        "requests_total",
        "retries_total",
        "timeouts_total",
        "disconnects_total",
        "broker_round_trip_seconds",
        "broker_throttle_seconds",
    }
