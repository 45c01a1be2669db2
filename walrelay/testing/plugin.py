"""What a plug-in owes beside its sink: settings that are checked, a doctor, and a broker that may be away."""

import subprocess
import sys
from contextlib import closing
from time import monotonic
from typing import Any, Protocol

from walrelay.errors import Retryable
from walrelay.model import Receipt
from walrelay.publish import SinkPlugin
from walrelay.publish.plugins import entry_points_by_kind
from walrelay.testing.case import Case, message, seconds


class PluginCase(Case, Protocol):
    """The plug-in as the settings file uses it."""

    plugin: SinkPlugin

    settings: dict[str, Any]
    """A section `sink` that works, without `kind`."""

    nowhere: dict[str, Any]
    """One that leads to a place where nobody listens."""


class PluginContract:
    """For every plug-in whose sink has a broker."""

    def test_the_plugin_is_found_by_its_entry_point_which_does_not_import_the_client(self, case: PluginCase) -> None:
        kind = _kind_of(case.plugin)
        traits = case.plugin.traits
        assert traits is not None, "`walrelay sinks` has nothing to tell"
        assert all((traits.durable, traits.order, traits.repeats, traits.headers, traits.size)), traits
        if traits.client:
            code = "import sys; from walrelay.publish import load; load(sys.argv[1]); print(sys.argv[2] in sys.modules)"
            command = [sys.executable, "-c", code, kind, traits.client]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            assert done.stdout.strip() == "False", f"importing the plug-in imports {traits.client}"

    def test_settings_are_checked_and_explained(self, case: PluginCase) -> None:
        model = case.plugin.settings
        made = model.model_validate(case.settings)
        assert model.model_config.get("frozen"), "settings can be changed"
        assert model.__doc__, "the kind is not explained"
        for name, field in model.model_fields.items():
            assert field.description, f"{name} is not explained"
        assert _is_refused(model, {**case.settings, "no_such_setting": 1}), "an unknown setting is not refused"
        for name, value in made:
            if hasattr(value, "get_secret_value") and value.get_secret_value():
                assert value.get_secret_value() not in repr(made), f"{name} is shown"

    def test_a_broker_that_is_away_is_waited_for_and_said(self, case: PluginCase) -> None:
        """Opening does not wait; there is neither a refusal nor a receipt, and close is quick."""
        settings = case.plugin.settings.model_validate(case.nowhere)
        case.plugin.open(settings, case.plugin.memory()).close()  # the client library is imported, which may take long
        began = monotonic()
        with closing(case.plugin.open(settings, case.plugin.memory())) as sink:
            assert monotonic() - began < 3, "opening waits for the broker"
            told, deadline = "", monotonic() + 20
            try:
                sink.publish(message(case, 0), 0)
                while not told:
                    assert monotonic() < deadline, "nobody is told that the broker is away"
                    heard = [*sink.receipts(0.1)]
                    assert not heard, f"{'durable' if isinstance(heard[0], Receipt) else 'refused'}: {heard}"
                    told = sink.trouble()
            except Retryable as why:
                told = str(why)
            assert told, "an error without a text"
            assert seconds(sink.close) < 3, "close waited"

    def test_the_doctor_changes_nothing_and_says_what_to_do(self, case: PluginCase) -> None:
        settings = case.plugin.settings.model_validate(case.settings)
        for finding in case.plugin.examine(settings, [case.topic, "pattern-*"]):
            assert finding.detail
            assert finding.verdict == "ok" or finding.fix, f"what is to be done? {finding}"
        assert case.arrived() == [], "the doctor has published something"

    def test_the_doctor_says_that_the_broker_is_away(self, case: PluginCase) -> None:
        settings = case.plugin.settings.model_validate(case.nowhere)
        began = monotonic()
        problems = [each for each in case.plugin.examine(settings, [case.topic]) if each.verdict == "problem"]
        assert problems, "the broker is away, and all is well"
        assert all(each.fix for each in problems), problems
        assert monotonic() - began < 30, "the doctor waits for long"


def _kind_of(plugin: SinkPlugin) -> str:
    for kind, point in entry_points_by_kind().items():
        if point.load() is plugin:
            return kind
    raise AssertionError("no entry point in the group walrelay.sinks names this plug-in: is its package installed?")


def _is_refused(model: Any, settings: dict[str, Any]) -> bool:
    try:
        model.model_validate(settings)
    except ValueError:
        return True
    return False
