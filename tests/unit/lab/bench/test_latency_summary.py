"""Rounds put together, costs net of the writer's own, the JSON that comes of it, and the verdict."""

import json
import math

from walrelay.lab.bench import account
from walrelay.lab.bench.account import (
    CommittedEvent,
    LatencyAccount,
    Measured,
    Received,
    complaints,
    per_1000,
    strategies,
)
from walrelay.lab.bench.results import Cost, LatencyResult, MaxRatio, Strategy

UNKNOWN = Cost(None, None, None, None)
TENTH = MaxRatio("walrelay", "polling-100ms", 0.1)


def measured(
    *latencies_ms: float, spent: Cost = account.NOTHING, idle: Cost | None = None, again: int = 0, lost: int = 0
) -> Measured:
    """A segment with an event for each latency."""
    account = LatencyAccount(len(latencies_ms) + lost)
    for number, latency in enumerate((*latencies_ms, *[math.nan] * lost)):
        account.commit(CommittedEvent(0, number, number * 10**9))
        if not math.isnan(latency):
            account.receive(Received(0, number, 0, number, number * 10**9 + round(latency * 1e6)))
    for _ in range(again):
        account.receive(Received(0, 0, 0, 99, 0))
    return Measured(account, spent, idle)


def only(*rounds: Measured, alone: Measured | None = None) -> Strategy:
    (strategy,) = strategies({"walrelay": rounds}, [alone or measured(*[0.0] * 1000)])
    return strategy


def test_latencies_of_all_rounds_are_one_distribution() -> None:
    found = only(measured(*range(1, 51)), measured(*range(51, 101)))
    assert (found.p50_ms, found.p90_ms, found.p99_ms, found.max_ms, found.events) == (50, 90, 99, 100, 100)


def test_faults_add_up() -> None:
    found = only(measured(1, 2, again=1), measured(1, 2, lost=3))
    assert (found.lost, found.duplicates, found.out_of_order, found.events) == (3, 1, 0, 7)
    assert not found.sound


def test_histograms_have_the_same_bounds_and_hold_everything() -> None:
    both = strategies({"a": [measured(0.3, 2.0)], "b": [measured(4000.0)]}, [measured(0.0)])
    first, second = ([bound for bound, _ in each.histogram] for each in both)
    assert first == second
    assert [sum(count for _, count in each.histogram) for each in both] == [2, 1]


def test_costs_are_per_thousand_events_and_net_of_the_writers_own() -> None:
    alone = measured(*[0.0] * 1000, spent=Cost(0.0, 600_000.0, 0.0, 0.2))
    rounds = (measured(*[1.0] * 500, spent=Cost(20.0, 500_000.0, 500.0, 0.3)),) * 2
    assert only(*rounds, alone=alone).per_1000 == Cost(40.0, 400_000.0, 1000.0, 0.4)


def test_a_net_cost_below_zero_stays_what_it_is() -> None:
    alone = measured(*[0.0] * 1000, spent=Cost(0.0, 600.0, 0.0, 0.2))
    found = only(measured(*[1.0] * 1000, spent=Cost(0.0, 500.0, 0.0, 0.1)), alone=alone)
    assert found.per_1000 == Cost(0.0, -100.0, 0.0, -0.1)


def test_what_was_not_measured_in_one_round_is_not_known() -> None:
    found = only(measured(1.0, spent=UNKNOWN), measured(1.0))
    assert found.per_1000 == UNKNOWN
    assert per_1000([measured(1.0, spent=Cost(None, 5.0, None, None))]) == Cost(None, 5000.0, None, None)


def test_the_idle_minute_is_net_of_the_servers_own_and_the_mean_of_those_measured() -> None:
    quiet = Cost(0.0, 100.0, 0.0, 0.5)
    rounds = (
        measured(1.0),
        measured(1.0, idle=Cost(60.0, 100.0, 0.0, 1.5)),
        measured(1.0, idle=Cost(62.0, 100.0, 0.0, 2.5)),
    )
    assert only(*rounds, alone=measured(0.0, idle=quiet)).idle_minute == Cost(61.0, 0.0, 0.0, 1.5)
    assert only(measured(1.0)).idle_minute is None


def test_what_the_worker_took_is_the_most_memory_and_the_median_start_of_the_rounds() -> None:
    spent = account.NOTHING._replace(worker_cpu_s=0.5)
    one, two = (measured(*[1.0] * 500, spent=spent) for _ in range(2))
    found = only(
        one._replace(worker_rss_bytes=50, first_event_s=0.25), two._replace(worker_rss_bytes=60, first_event_s=0.75)
    )
    assert (found.worker_rss_bytes, found.first_event_s, found.per_1000.worker_cpu_s) == (60, 0.5, 1.0)
    assert only(measured(1.0)).worker_rss_bytes is None


def result(*found: Strategy) -> LatencyResult:
    alone = Cost(None, 1.0, 0.0, 0.1)
    return LatencyResult(found, alone, [0.1], {"rate": 200}, {"cores": 2}, {"walrelay": "0"}, "", "")


def test_the_json_has_the_keys_that_others_read() -> None:
    said = result(
        only(measured(1.0), measured(2.0, idle=account.NOTHING), alone=measured(0.0, idle=account.NOTHING))
    ).json()
    assert json.loads(json.dumps(said, allow_nan=False)) == said | {
        "strategies": json.loads(json.dumps(said["strategies"]))
    }
    assert {"strategies", "writer_per_1000", "machine", "versions"} <= said.keys()
    (strategy,) = said["strategies"]
    expected = "name p50_ms p90_ms p99_ms max_ms events lost duplicates out_of_order statements_per_1000"
    expected += " wal_bytes_per_1000 dead_tuples_per_1000 server_cpu_s_per_1000 idle_per_minute histogram"
    expected += " worker_cpu_s_per_1000 worker_rss_bytes first_event_s round_p50_ms"
    assert sorted(strategy) == sorted(expected.split())
    idle = ["dead_tuples", "server_cpu_s", "statements", "wal_bytes", "worker_cpu_s"]
    assert sorted(strategy["idle_per_minute"]) == idle


def test_a_sound_result_has_no_complaint() -> None:
    found = strategies({"walrelay": [measured(2.0)], "polling-100ms": [measured(50.0)]}, [measured(0.0)])
    assert complaints(result(*found), [TENTH]) == []
    assert complaints(result(*found), []) == []


def test_too_large_a_ratio_is_a_complaint() -> None:
    found = strategies({"walrelay": [measured(6.0)], "polling-100ms": [measured(50.0)]}, [measured(0.0)])
    assert complaints(result(*found), [TENTH]) == [
        "the p50 of walrelay is 0.12 times that of polling-100ms; at most 0.1 times were asked for"
    ]
    assert complaints(result(*found), [TENTH._replace(times=0.12)]) == []


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    """Pooled, the disturbed rounds of each would be compared with the quiet ones of the other."""
    relay = [measured(1.0), measured(90.0), measured(9.0)]
    polling = [measured(10.0), measured(10.0), measured(90.0)]
    found = strategies({"walrelay": relay, "polling-100ms": polling}, [measured(0.0)])
    assert found[0].round_p50_ms == [1.0, 90.0, 9.0]
    assert complaints(result(*found), [TENTH]) == []
    assert len(complaints(result(*found), [TENTH._replace(times=0.09)])) == 1


def test_a_strategy_that_could_not_be_measured_is_a_complaint() -> None:
    found = strategies({"walrelay": [measured(6.0)]}, [measured(0.0)])
    assert complaints(result(*found), [TENTH]) == ["polling-100ms cannot be compared: not measured"]


def test_a_median_of_nothing_is_a_complaint() -> None:
    found = strategies({"walrelay": [measured(lost=1)], "polling-100ms": [measured(50.0)]}, [measured(0.0)])
    assert len(complaints(result(*found), [TENTH])) == 2


def test_what_was_lost_repeated_or_out_of_order_is_a_complaint_for_each_strategy() -> None:
    found = strategies({"walrelay": [measured(2.0, again=2)], "polling-1s": [measured(9.0, lost=1)]}, [measured(0.0)])
    assert complaints(result(*found), []) == [
        "walrelay: 2 of 1 events repeated",
        "polling-1s: 1 of 2 events lost",
    ]
    jumbled = measured(1.0, 1.0)
    jumbled.account.receive(Received(0, 7, 0, 7, 0))
    jumbled.account.receive(Received(0, 5, 0, 8, 0))
    (found_jumbled,) = strategies({"walrelay": [jumbled]}, [measured(0.0)])
    assert complaints(result(found_jumbled), []) == ["walrelay: 1 of 2 events out of order"]
