"""The door through which sinks come in."""

import subprocess
import sys

import pytest

from walrelay.errors import Fatal
from walrelay.model import System
from walrelay.publish import SinkHandle, SinkPlugin, installed, load
from walrelay.sinks.memory import MemorySettings, MemorySink


def test_the_sinks_that_ship_with_walrelay_are_installed() -> None:
    kinds = installed()
    assert {"kafka", "log", "memory", "null", "statistics", "stdout"} <= set(kinds)
    assert kinds == sorted(kinds)


def test_a_sink_is_loaded_by_its_kind() -> None:
    plugin = load("memory")
    assert SinkHandle("memory", plugin.settings(), plugin).open().trouble() == ""


def test_a_kind_that_is_not_installed_is_fatal_and_those_that_are_get_named() -> None:
    with pytest.raises(Fatal, match="no sink of kind 'pigeon'") as caught:
        load("pigeon")
    assert "kafka, kinesis, log, memory, " in caught.value.hint


@pytest.mark.parametrize("kind", installed())
def test_loading_a_sink_does_not_import_its_client_library(kind: str) -> None:
    """Nobody pays for a broker's client while settings are read, or for another broker's at all."""
    script = f"import sys; from walrelay.publish import load; load({kind!r}); print('confluent_kafka' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_a_kind_of_sink_cannot_do_is_fatal_as_soon_as_it_is_asked_for() -> None:
    plugin = load("memory")
    handle = SinkHandle("memory", plugin.settings(), plugin)
    with pytest.raises(Fatal, match="a sink of kind 'memory' cannot publish exactly once"):
        handle.open_exactly_once(System("1", 1), "slot")
    with pytest.raises(Fatal, match="`walrelay audit` reads the topics, and a sink of kind 'memory' cannot read them"):
        handle.reader("`walrelay audit`")
    with pytest.raises(Fatal, match="a sink of kind 'memory' has no topics to make"):
        handle.make_topics(["events"], 1, None)
    assert (handle.finds_newest, handle.newest(["events"], 10)) == (False, ([], None))


def test_what_sinks_of_one_relay_learn_is_handed_on_and_no_other_relay_has_it() -> None:
    def open_sink(settings: object, learned: list[int]) -> MemorySink:
        learned.append(len(learned))
        return MemorySink(keep=len(learned))

    plugin = SinkPlugin(MemorySettings, open=open_sink, examine=lambda *_: [], memory=list[int])
    first, second = (SinkHandle("memory", MemorySettings(keep=1), plugin) for _ in range(2))
    sinks = [first.open(), first.open(), second.open()]
    assert [sink.messages.maxlen for sink in sinks if isinstance(sink, MemorySink)] == [1, 2, 1]
