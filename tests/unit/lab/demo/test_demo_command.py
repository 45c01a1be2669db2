"""The arguments of `walrelay demo`; what is wrong is said before anything is started."""

import pytest
from click.testing import CliRunner

from walrelay.cli import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sink", "rabbit"], "'rabbit' is not one of"),
        (["--sink-url", "nats://localhost"], "--sink-url cannot be given with --sink kafka: --bootstrap-servers"),
        (["--sink", "file", "--sink-url", "/tmp/x"], "--sink-url cannot be given with --sink file"),
        (["--sink", "webhook", "--sink-url", "http://x"], "--sink-url cannot be given with --sink webhook"),
        (["--sink", "nats", "--bootstrap-servers", "x:1"], "--bootstrap-servers names a Kafka, and --sink is nats"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["demo", *arguments])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
