"""From readings to the runs that are reported."""

import pytest

from walrelay.errors import Fatal
from walrelay.lab.bench.readers import Reading
from walrelay.lab.bench.throughput import complete, runs


def reading(
    seconds: float, *, cpu_s: float = 0.5, sender: float | None = 0.8, peak: int = 60, events: int = 100_000
) -> Reading:
    return Reading(events, seconds, cpu_s, sender, peak)


def test_rates_and_costs_are_medians_and_memory_is_the_highest() -> None:
    taken = [
        reading(1.0, cpu_s=0.4, sender=0.9, peak=70),
        reading(9.0, cpu_s=5.0, sender=9.0, peak=50),  # a noisy neighbour came by
        reading(2.0, cpu_s=0.6, sender=0.7, peak=60),
    ]
    (run,) = runs({"limit": taken})
    assert run.events_per_second == pytest.approx(50_000)
    assert run.cpu_s_per_million == pytest.approx(6.0)
    assert run.walsender_cpu_s_per_million == pytest.approx(9.0)
    assert run.peak_rss_bytes == 70
    assert run.round_events_per_second == pytest.approx([100_000, 11_111, 50_000], rel=0.001)


def test_ratios_are_to_the_limit_whatever_the_order() -> None:
    found = runs({"null": [reading(2.0)], "limit": [reading(1.0)], "mock": [reading(0.8)]})
    assert [(run.name, run.ratio_to_limit) for run in found] == [("null", 0.5), ("limit", 1.0), ("mock", 1.25)]


def test_without_the_limit_there_is_no_ratio() -> None:
    (run,) = runs({"null": [reading(1.0)]})
    assert run.ratio_to_limit is None


def test_a_reader_that_was_given_fewer_events_is_compared_by_its_rate() -> None:
    limit, polling = runs({"limit": [reading(1.0)], "polling": [reading(5.0, events=50_000, sender=None)]})
    assert polling.ratio_to_limit == pytest.approx(0.1)
    assert polling.cpu_s_per_million == pytest.approx(2 * limit.cpu_s_per_million)
    assert polling.walsender_cpu_s_per_million is None


def test_a_walsender_that_was_seen_in_some_rounds_only_is_reported_from_those() -> None:
    (run,) = runs({"null": [reading(1.0, sender=None), reading(1.0, sender=0.5)]})
    assert run.walsender_cpu_s_per_million == pytest.approx(5.0)


def test_the_keys_of_the_json_are_those_that_were_promised() -> None:
    (run,) = runs({"limit": [reading(1.0)]})
    assert list(run.json()) == [
        "name",
        "events_per_second",
        "ratio_to_limit",
        "cpu_s_per_million",
        "walsender_cpu_s_per_million",
        "peak_rss_bytes",
        "round_events_per_second",
    ]


@pytest.mark.parametrize("delivered", [0, 99_999, 100_001])
def test_an_incomplete_reading_gives_no_number(delivered: int) -> None:
    with pytest.raises(Fatal, match=f"null delivered {delivered:,} of 100,000 events"):
        complete("null", reading(1.0, events=delivered), 100_000)


def test_a_complete_reading_is_taken() -> None:
    taken = reading(1.0)
    assert complete("null", taken, 100_000) is taken
