"""The arguments of `walrelay bench throughput`; what is wrong is said before anything is started."""

import pytest
from click.testing import CliRunner, Result

from walrelay.cli import main
from walrelay.lab.bench.results import READERS


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", "throughput", *arguments])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--only", "limit,nul"],
            "'nul': not among limit, null, null-metrics, mock, mock-metrics, kafka, exactly-once, wal2json, polling",
        ),
        (["--rows-per-transaction", "none"], "'none' is neither a number from 1 on nor 'all'"),
        (["--events", "0"], "0 is not in the range"),
        (["--rounds", "0"], "0 is not in the range"),
        (["--row-bytes", "20"], "20 is not in the range"),
        (["--postgres-bin", "/nowhere"], "does not exist"),
        (["--sink", "pigeon"], "'pigeon' is not one of"),
        (["--keys", "0"], "0 is not in the range"),
        (["--sink-url", "nats://x"], "--sink-url is the address of one --sink"),
        (["--sink", "nats", "--sink", "redis", "--sink-url", "nats://x"], "--sink-url is the address of one --sink"),
        (["--sink", "file", "--sink-url", "/tmp/x"], "--sink-url cannot be given with --sink file"),
        (["--sink", "nats", "--bootstrap-servers", "x:1"], "--bootstrap-servers names a Kafka"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(arguments: list[str], said: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_the_help_lists_the_readers() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(what in result.output for what in READERS.values())
