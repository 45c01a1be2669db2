"""`walrelay bench latency` as it is typed, with results that are made up."""

import json

import pytest
from click.testing import CliRunner, Result

from tests.unit.lab.bench import samples
from walrelay.cli import main
from walrelay.lab.bench import latency
from walrelay.lab.bench.machine import Servers
from walrelay.lab.bench.results import LatencyRequest, LatencyResult, Strategy


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Strategy]:
    """What the comparison will find; it may be changed."""
    strategies = [samples.strategy("walrelay", (1, 2, 3, 4)), samples.strategy("polling-100ms", (50, 90, 99, 100))]

    def compare(request: LatencyRequest, servers: Servers, *_: object) -> LatencyResult:
        return samples.latency(strategies)._replace(workload=request.workload(), command=request.command)

    monkeypatch.setattr(latency, "compare", compare)
    return strategies


def run(*options: str) -> Result:
    return CliRunner().invoke(main, ["bench", "latency", *options])


def test_a_sound_result_is_shown_and_ends_with_0(found: list[Strategy]) -> None:
    done = run()
    assert (done.exit_code, done.stderr) == (0, "")
    assert "COMMIT to consumer" in done.stdout


def test_json_is_all_there_is_on_stdout(found: list[Strategy]) -> None:
    done = run("--json")
    assert [strategy["name"] for strategy in json.loads(done.stdout)["strategies"]] == ["walrelay", "polling-100ms"]
    assert "COMMIT to consumer" in done.stderr


@pytest.mark.parametrize("broken", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_anything_lost_repeated_or_out_of_order_ends_with_1_and_the_result_is_there_all_the_same(
    broken: tuple[int, int, int], found: list[Strategy]
) -> None:
    found[1] = samples.strategy("polling-100ms", (50, 90, 99, 100), broken=broken)
    done = run("--json")
    assert done.exit_code == 1
    assert "error: polling-100ms: 1 of 6,000 events" in done.stderr
    assert json.loads(done.stdout)["strategies"][1]["name"] == "polling-100ms"


def test_the_ratio_that_is_required_decides(found: list[Strategy]) -> None:
    assert run("--max-ratio", "walrelay/polling-100ms=0.02").exit_code == 0
    done = run("--max-ratio", "polling-100ms/walrelay=50", "--max-ratio", "walrelay/polling-100ms=0.019")
    assert done.exit_code == 1
    assert done.stderr == (
        "error: the p50 of walrelay is 0.02 times that of polling-100ms; at most 0.019 times were asked for\n"
    )


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ((), (3, 10, 60)),
        (("--quick",), (1, 2, 0)),
        (("--quick", "--rounds", "2", "--seconds", "0.5", "--idle", "1"), (2, 0.5, 1)),
        (("--idle", "0"), (3, 10, 0)),
    ],
)
def test_quick_is_a_smaller_size_of_which_each_part_can_be_set(
    options: tuple[str, ...], size: tuple[float, float, float], found: list[Strategy]
) -> None:
    done = run("--json", *options)
    workload = json.loads(done.stdout)["workload"]
    assert (workload["rounds"], workload["seconds"], workload["idle_seconds"]) == size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "walrelay,polling-2s"], "'polling-2s' is none of"),
        (["--only", "walrelay", "--max-ratio", "walrelay/polling-100ms=1"], "both must be measured"),
        (["--max-ratio", "walrelay/polling-100ms"], "is not like exactly-once/walrelay=6"),
        (["--max-ratio", "walrelay=1"], "is not like exactly-once/walrelay=6"),
        (["--max-ratio", "walrelay/direct=nan"], "is not like exactly-once/walrelay=6"),
        (["--mode", "wild"], "'wild' is not one of"),
        (["--rate", "0"], "not in the range"),
    ],
)
def test_what_cannot_be_measured_is_a_usage_error(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.output
