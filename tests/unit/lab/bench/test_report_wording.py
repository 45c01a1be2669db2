"""How numbers and names read, and what is said of a result."""

import math

import pytest

from tests.unit.lab.bench import samples
from walrelay.lab.bench import conditions, wording
from walrelay.lab.bench.results import Run
from walrelay.lab.bench.wording import duration, label, number, size, spoken, times


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (0.428, "0.43 ms"),
        (0.996, "1.0 ms"),
        (1.4, "1.4 ms"),
        (9.94, "9.9 ms"),
        (9.96, "10 ms"),
        (512.4, "512 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (2510, "2.5 s"),
        (30_500, "30.5 s"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_durations(ms: float | None, said: str) -> None:
    assert duration(ms) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (-0.001, "0"),
        (0.004, "0"),
        (0.4, "0.40"),
        (-3.26, "−3.3"),
        (99.94, "99.9"),
        (99.96, "100"),
        (1e6, "1,000,000"),
    ],
)
def test_numbers(value: float, said: str) -> None:
    assert number(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (0.2, "0"), (812.0, "812 B"), (1250, "1.2 KB"), (-1250, "−1.2 KB"), (72_351_744, "69 MB"), (None, "–")],
)
def test_sizes(value: float | None, said: str) -> None:
    assert size(value) == said


def test_ratios() -> None:
    assert [times(ratio) for ratio in (0.5, 3.21, 365.7, None)] == ["0.50×", "3.2×", "366×", "–"]


def test_names() -> None:
    assert label("polling-100ms") == "polling every 100 ms"
    assert spoken("polling-1s") == "polling every second"
    assert label("polling-backoff") == "polling with back-off"
    assert label("mine") == "mine"


def test_the_headline_compares_with_polling_every_second_and_the_fastest_is_named_too() -> None:
    result = samples.latency()
    assert wording.latency_title(result) == "COMMIT to consumer: walrelay 1.4 ms, polling every second 512 ms"
    assert wording.latency_headline(result).endswith("polling every second took 512 ms, 366 times as long.")
    assert wording.nearest(result) == "The fastest of the others, polling on NOTIFY, took 4.3 ms."


def test_how_far_the_noise_goes_is_told_where_it_is_known() -> None:
    result = samples.latency()
    assert wording.noise(result).startswith("The writer alone took 171 to 190 ms of CPU from round to round")
    assert wording.noise(result._replace(writer_cpu_s=[0.171])) == ""


def test_without_it_the_headline_compares_with_the_fastest() -> None:
    result = samples.latency([each for each in samples.STRATEGIES if each.name != "polling-1s"])
    assert wording.latency_headline(result).endswith("polling on NOTIFY took 4.3 ms, 3.1 times as long.")
    assert wording.nearest(result) == ""


def test_real_kafka_stands_for_walrelay_before_the_others() -> None:
    result = samples.throughput()
    assert wording.throughput_headline(result) == (
        "walrelay drained the backlog into Kafka at 98,205 events a second, 0.73 of what pg_recvlogical reads."
    )
    without = result._replace(runs=[run for run in result.runs if run.name not in ("kafka", "limit")])
    assert wording.throughput_title(without) == "Draining a backlog: walrelay → mock Kafka 114,097 events/s"


def test_who_is_faster_than_the_limit_is_said_to_be_so() -> None:
    runs = [Run("limit", 1000.0, 1.0, 1.0, 1.0, 1), Run("mock", 1180.0, 1.18, 1.0, 1.0, 1)]
    assert wording.throughput_title(samples.throughput()._replace(runs=runs)).endswith("1.18 times pg_recvlogical")


def test_why_somebody_is_above_the_limit_is_said_only_where_somebody_is() -> None:
    result = samples.throughput()
    assert wording.above_the_limit(result) == ""
    limit, null = result.runs[:2]
    faster = result._replace(runs=[limit, null._replace(ratio_to_limit=1.2)])
    assert wording.above_the_limit(faster).startswith("A ratio above 1 is possible because pg_recvlogical")


def test_what_it_was_measured_on() -> None:
    result = samples.latency()
    assert conditions.workload(result.workload) == (
        "200 commits/s, steady, 3 rounds, 10 s of writing in each, 60 s idle"
    )
    assert conditions.machine(result.machine) == "2 cores, 7.8 GiB, Example CPU @ 2.60GHz, Linux 6.1.0"
    assert conditions.workload({"rate": 200.0, "colour": "green"}) == "200 commits/s, colour green"


def test_a_mock_cluster_is_no_version_of_kafka() -> None:
    versions = {"kafka": "librdkafka's mock cluster", "walrelay": "1.0"}
    assert conditions.versions(versions) == "walrelay 1.0, Kafka: librdkafka's mock cluster"
    assert conditions.versions({"kafka": "none", "walrelay": "1.0"}) == "walrelay 1.0"
