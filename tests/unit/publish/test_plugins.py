"""The door through which sinks come in."""

import subprocess
import sys

import pytest

from walrelay.errors import Fatal
from walrelay.publish import SinkHandle, installed, load


def test_the_sinks_that_ship_with_walrelay_are_installed() -> None:
    kinds = installed()
    assert {"kafka", "memory", "stdout"} <= set(kinds)
    assert kinds == sorted(kinds)


def test_a_sink_is_loaded_by_its_kind() -> None:
    plugin = load("memory")
    assert SinkHandle("memory", plugin.settings(), plugin).open().trouble() == ""


def test_a_kind_that_is_not_installed_is_fatal_and_those_that_are_get_named() -> None:
    with pytest.raises(Fatal, match="no sink of kind 'pigeon'") as caught:
        load("pigeon")
    assert "kafka, memory, " in caught.value.hint


@pytest.mark.parametrize("kind", installed())
def test_loading_a_sink_does_not_import_its_client_library(kind: str) -> None:
    """Nobody pays for a broker's client while settings are read, or for another broker's at all."""
    script = f"import sys; from walrelay.publish import load; load({kind!r}); print('confluent_kafka' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
