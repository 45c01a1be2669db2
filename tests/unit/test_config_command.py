"""`walrelay config` as it is typed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from walrelay.cli import main
from walrelay.cli.config import config
from walrelay.config import presets
from walrelay.config.documentation import example, json_schema
from walrelay.errors import SettingsError

GOOD = "source: {dsn: host=db}\nsink: {kind: stdout}\n"


def run(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(config, arguments, env=env)


def test_check_says_that_there_are_no_problems(tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text(GOOD)
    result = run("check", "--config", str(path))
    assert (result.exit_code, result.output) == (0, f"{path}: no problems\n")


def test_check_raises_all_the_problems_for_the_main_command_to_show(tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text("source: {dsn: host=db, slt: x}\nsink: {kind: stdout}\nlog: {level: loud}\n")
    result = run("check", "-c", str(path))
    assert isinstance(result.exception, SettingsError)
    assert str(result.exception).splitlines() == [
        f"{path}:1: source: unknown key 'slt'; did you mean 'slot'?",
        f"{path}:3: log.level: 'loud' is not one of debug, info, warning, error",
    ]
    assert result.stdout == ""


def test_problems_go_to_stderr_and_make_the_command_exit_with_2(tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text("sink: {kind: stdout}\ncolour: red\n")
    result = CliRunner().invoke(main, ["config", "check", "-c", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{path}:1: 'source' is missing" in result.stderr
    assert f"{path}:2: unknown key 'colour'" in result.stderr


def test_the_settings_file_is_walrelay_yaml_unless_the_environment_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("walrelay.yaml").write_text(GOOD)
    Path("other.yaml").write_text(GOOD)
    assert run("check").output == "walrelay.yaml: no problems\n"
    assert run("check", WALRELAY_CONFIG="other.yaml").output == "other.yaml: no problems\n"


def test_example_prints_a_file_that_check_accepts(tmp_path: Path) -> None:
    path = tmp_path / "walrelay.yaml"
    path.write_text(run("example").stdout)
    assert path.read_text() == example()
    assert run("check", "-c", str(path), DATABASE_URL="host=db").exit_code == 0


@pytest.mark.parametrize("name", presets.NAMES)
def test_example_prints_a_preset_in_a_file_that_check_accepts(tmp_path: Path, name: presets.PresetName) -> None:
    path = tmp_path / "walrelay.yaml"
    path.write_text(run("example", "--preset", name).stdout)
    assert path.read_text() == example(name)
    assert run("check", "-c", str(path), DATABASE_URL="host=db").exit_code == 0


def test_schema_prints_the_json_schema() -> None:
    assert json.loads(run("schema").stdout) == json_schema()


@pytest.mark.parametrize("command", [[], ["check"], ["example"], ["schema"]])
def test_every_help_shows_an_example(command: list[str]) -> None:
    text = run(*command, "--help").output
    assert "Example:" in text
    assert "walrelay config" in text.partition("Example:")[2]
