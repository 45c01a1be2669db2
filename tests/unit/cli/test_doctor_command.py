"""`walrelay doctor` as it is typed, and what it prints."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from walrelay.cli import main
from walrelay.cli.doctor import summary
from walrelay.model import Finding

FINDINGS = [
    Finding("connection", "ok", "PostgreSQL 18.4"),
    Finding("topic events", "warning", "one replica only", "kafka-topics.sh ..."),
    Finding("wal_level", "problem", "replica; a logical slot needs logical", "ALTER SYSTEM SET wal_level = logical;"),
]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database has these findings, and the sink has none."""
    monkeypatch.setattr("walrelay.operations.doctor.examine", lambda wiring, config: iter(FINDINGS))
    path = tmp_path / "relay.yaml"
    path.write_text("source: {dsn: host=db}\nsink: {kind: stdout}\n")
    return path


def run(path: Path, *options: str, color: bool = False, **env: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "-c", str(path), *options], color=color, env=env)


def test_people_get_aligned_lines_with_the_fix_below_and_the_counts_at_the_end(settings: Path) -> None:
    result = run(settings)
    assert result.output.splitlines() == [
        "✓ connection                PostgreSQL 18.4",
        "! topic events              one replica only",
        "    fix: kafka-topics.sh ...",
        "✗ wal_level                 replica; a logical slot needs logical",
        "    fix: ALTER SYSTEM SET wal_level = logical;",
        "1 problem, 1 warning: not ready",
    ]
    assert result.exit_code == 1


def test_colours_are_for_terminals_that_want_them(settings: Path) -> None:
    assert "\x1b[31m✗\x1b[0m wal_level" in run(settings, color=True).output
    assert "\x1b[" not in run(settings, color=True, NO_COLOR="1").output
    assert "\x1b[" not in run(settings).output


def test_machines_get_one_json_object_on_stdout(settings: Path) -> None:
    result = run(settings, "--json")
    assert json.loads(result.stdout) == {"findings": [each._asdict() for each in FINDINGS], "ready": False}
    assert (result.exit_code, result.stderr) == (1, "")


def test_warnings_do_not_block(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.operations.doctor.examine", lambda wiring, config: iter(FINDINGS[:2]))
    result = run(settings)
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "1 warning: ready")
    assert json.loads(run(settings, "--json").stdout)["ready"] is True


def test_a_settings_file_with_a_mistake_exits_with_2(settings: Path) -> None:
    settings.write_text("source: {dsn: host=db, slt: x}\nsink: {kind: stdout}\n")
    result = run(settings, "--json")
    assert (result.exit_code, result.stdout) == (2, "")


def test_the_help_has_an_example(settings: Path) -> None:
    text = run(settings, "--help").output
    assert "Example:" in text
    assert "walrelay doctor --json" in text


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        (Counter(), "ready"),
        (Counter(ok=7), "ready"),
        (Counter(warning=2), "2 warnings: ready"),
        (Counter(problem=2, warning=1), "2 problems, 1 warning: not ready"),
    ],
)
def test_the_last_line_counts_what_is_in_the_way(counts: Counter[str], line: str) -> None:
    assert summary(counts) == line
