"""`walrelay sinks` tells of every kind that is installed, and what is missing to use it."""

import json
import tomllib
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from walrelay.cli import main
from walrelay.publish import kinds as kinds_module
from walrelay.publish import load, plugins
from walrelay.publish.kinds import is_installed, kinds

EXTRAS = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OWN = [each for each in kinds() if each.package == "walrelay"]


@pytest.mark.parametrize("kind", OWN, ids=[each.kind for each in OWN])
def test_every_sink_says_what_it_can_do_and_which_extra_it_needs(kind: kinds_module.InstalledKind) -> None:
    assert kind.traits is not None
    assert all((kind.traits.durable, kind.traits.order, kind.traits.repeats, kind.traits.headers, kind.traits.size))
    assert bool(kind.traits.client) == bool(kind.traits.extra)
    if kind.traits.client:
        assert kind.traits.extra in EXTRAS
        assert find_spec(kind.traits.client) is not None, "the tests have every client"
    assert ("exactly_once" in kind.delivery) == (load(kind.kind).exactly_once is not None)


def test_a_client_that_is_missing_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds_module, "is_installed", lambda name: False)
    shown = CliRunner().invoke(main, ["sinks"], standalone_mode=False).output
    assert "rabbitmq\n  not usable: its client is missing: pip install 'walrelay[rabbitmq]'\n" in shown
    assert "stdout\n  durable" in shown


def test_a_client_is_missing_also_where_the_package_around_it_is() -> None:
    assert not is_installed("no_such_package.client")
    assert not is_installed("walrelay.no_such_module")
    assert is_installed("google.pubsub_v1")


def test_a_package_that_cannot_be_imported_hides_no_other_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("aaa", "no_such_package:plugin", "walrelay.sinks")
    points = {**plugins.entry_points_by_kind(), "aaa": broken}
    monkeypatch.setattr(kinds_module, "entry_points_by_kind", lambda: points)
    shown = CliRunner().invoke(main, ["sinks"], standalone_mode=False).output
    assert "cannot be imported: ModuleNotFoundError: No module named 'no_such_package'" in shown
    assert "stdout\n  durable" in shown


def test_the_document_has_every_kind() -> None:
    told = json.loads(CliRunner().invoke(main, ["sinks", "--json"], standalone_mode=False).output)
    assert [each["kind"] for each in told] == [each.kind for each in kinds()]
    (kafka,) = (each for each in told if each["kind"] == "kafka")
    assert kafka["delivery"] == ["at_least_once", "exactly_once"]
    assert kafka["commands"] == ["init --topics", "audit", "compare"]
