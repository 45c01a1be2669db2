"""The report of the peers' comparison, from results as a run leaves them."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.peers.report import render
from tests.bench.peers.results import Result, Run, merge, read

PLAN = {"rows": 500_000, "rate": 200.0, "seconds": 20.0, "kill_rate": 1000.0}
EMPTY = Run(
    date="2026-11-21 10:00 UTC",
    command="python -m tests.bench.peers",
    machine={"cores": 2, "memory_gb": 24, "cpu": "a CPU"},
    versions={"PostgreSQL": "15.18", "Kafka": "4.3.0"},
    plan=PLAN,
)
DRAIN = Result("walrelay", "0.1.0", "tuned", "drain", values={"events_per_second": 60_000.4, "cpu_per_million": 8.25})


def run(*results: Result) -> Run:
    return replace(EMPTY, results=list(results))


def row(table: str, peer: str, variant: str) -> list[str]:
    """The cells of a variant in the first table."""
    return next(line.split(" | ")[2:] for line in table.splitlines() if line.startswith(f"| {peer} | {variant} |"))


def test_a_row_has_the_numbers_of_all_measurements() -> None:
    latency = replace(DRAIN, measurement="latency", values={"p50_ms": 1.44, "p99_ms": 6.26})
    killed = replace(DRAIN, measurement="kill", values={"lost": 0, "duplicates": 27, "out_of_order": 0})
    cells = row(render([run(DRAIN, latency, killed)]), "walrelay", "tuned")
    assert cells == ["60,000", "8.2", "–", "–", "1.4", "6.3", "0", "27", "0", "– |"]


def test_walrelay_comes_first_in_whatever_order_the_runs_were_made() -> None:
    table = render([run(replace(DRAIN, peer="pgstream")), run(DRAIN)])
    assert table.index("| walrelay |") < table.index("| pgstream |")


def test_of_several_rounds_the_median_counts() -> None:
    rounds = [replace(DRAIN, round=n, values={"events_per_second": n * 1000}) for n in (1, 2, 9)]
    assert row(render([run(*rounds)]), "walrelay", "tuned")[0] == "2,000"


def test_of_what_was_lost_the_worst_round_counts() -> None:
    rounds = [replace(DRAIN, measurement="kill", round=n, values={"lost": n}) for n in (0, 0, 5)]
    assert row(render([run(*rounds)]), "walrelay", "tuned")[6] == "5"


def test_what_was_not_run_is_listed_once_with_its_reason() -> None:
    missing = Result("Conduit", "", reason="needs Go")
    silent = replace(DRAIN, measurement="latency", values={}, reason="nothing arrived for 90 s")
    table = render([run(DRAIN, missing, silent, silent)])
    assert "- Conduit: needs Go\n" in table
    assert table.count("- walrelay, tuned, latency: nothing arrived for 90 s") == 1
    assert "| Conduit" not in table


def test_notes_stand_beside_the_numbers() -> None:
    table = render([run(replace(DRAIN, notes=["drained 7 of 500,000 events: stopped after 240 s"]))])
    assert "- walrelay, tuned, drain: drained 7 of 500,000 events: stopped after 240 s" in table


def test_walrelay_stands_beside_debezium_server_where_both_were_tuned() -> None:
    theirs = replace(DRAIN, peer="debezium-server", values={"events_per_second": 20_000, "cpu_per_million": 33.0})
    table = render([run(DRAIN, theirs)])
    assert "| events/s | 60,000 | 20,000 | 3.00 |" in table
    assert "| CPU s per million | 8.2 | 33.0 | 0.250 |" in table


def test_without_debezium_server_there_are_no_ratios() -> None:
    assert "ratio" not in render([run(DRAIN)])


def test_a_later_run_takes_the_place_of_an_earlier_one() -> None:
    later = run(replace(DRAIN, values={"events_per_second": 70_000}))
    assert row(render([run(DRAIN), later]), "walrelay", "tuned")[0] == "70,000"


def test_a_later_run_of_one_measurement_leaves_the_others() -> None:
    latency = replace(DRAIN, measurement="latency", values={"p50_ms": 1.4})
    assert merge([run(DRAIN), run(latency)]) == [DRAIN, latency]


def test_a_peer_that_was_run_later_is_no_longer_reported_as_not_run() -> None:
    assert merge([run(Result("walrelay", "", reason="no Java")), run(DRAIN)]) == [DRAIN]


def test_runs_of_different_machines_are_not_put_into_one_table() -> None:
    other = replace(run(DRAIN), machine={"cores": 64})
    with pytest.raises(ValueError, match="different machines"):
        render([run(DRAIN), other])


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = run(DRAIN, Result("Conduit", "", reason="needs Go"))
    written.write(tmp_path / "results.json")
    assert read(tmp_path / "results.json") == written
