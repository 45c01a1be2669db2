"""Servers that are installed: what is said where one is not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from walrelay.errors import Fatal
from walrelay.lab.servers import installed


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (lambda: installed.program("no-such-server", "NATS", "nats-server"), "NATS is not installed"),
        (lambda: installed.program("no-such-epmd", "Erlang", "rabbitmq-server"), "there is no no-such-epmd on PATH"),
    ],
)
def test_a_server_that_is_not_installed_is_named_with_what_to_do(look: Callable[[], Path], said: str) -> None:
    with pytest.raises(Fatal, match=said) as refused:
        look()
    assert "apt-get install" in refused.value.hint
    assert "--sink-url" in refused.value.hint


def test_the_settings_of_a_node_are_below_its_directory(tmp_path: Path) -> None:
    place = installed.RabbitmqPlace(tmp_path, 1, 2, 3)
    environment = place.environment("further = setting")
    paths = {value for name, value in environment.items() if name.startswith("RABBITMQ_") and value.startswith("/")}
    assert len(paths) > 5
    assert all(path.startswith(str(tmp_path)) for path in {*paths, environment["HOME"]})
    assert (tmp_path / "rabbitmq.conf").read_text().splitlines()[-1] == "further = setting"
