"""A settings file and its database as the doctor's patient: examined and cured as a user would do it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import psycopg
import yaml
from click.testing import CliRunner, Result
from psycopg.conninfo import make_conninfo

from walrelay.cli import main
from walrelay.model import Finding


class Patient:
    """`dsn` is what walrelay is given; statements to paste are run at `operator`, a superuser's connection string."""

    def __init__(self, directory: Path, dsn: str, operator: str | None = None, **settings: Any) -> None:
        self._path = directory / "relay.yaml"
        self._operator = operator or dsn
        self.settings: dict[str, Any] = {"sink": {"kind": "stdout"}, **settings}
        self.settings["source"] = {"dsn": dsn, **self.settings.get("source", {})}
        self.exit_code = 0

    @property
    def path(self) -> Path:
        self._path.write_text(yaml.safe_dump(self.settings))
        return self._path

    def run(self, *command: str) -> Result:
        """A walrelay command for this settings file."""
        return CliRunner().invoke(main, [*command, "-c", str(self.path)], catch_exceptions=False)

    def init(self) -> None:
        result = self.run("init")
        assert result.exit_code == 0, result.output

    def refuses(self, command: str, complaint: Finding) -> None:
        """The command ends with the doctor's words, and its fix as hint."""
        result = self.run(*command.split())
        assert result.exit_code == 1, result.output
        assert complaint.detail in result.stderr
        assert f"hint: {complaint.fix}" in result.stderr

    def findings(self) -> list[Finding]:
        result = self.run("doctor", "--json")
        told = json.loads(result.stdout)
        assert result.stderr == ""
        self.exit_code = result.exit_code
        assert told["ready"] == (self.exit_code == 0)
        return [Finding(**each) for each in told["findings"]]

    def complaints(self) -> list[Finding]:
        return [finding for finding in self.findings() if finding.verdict != "ok"]

    def complaint(self, subject: str) -> Finding:
        """The first one about the subject; there has to be one."""
        found = self.complaints()
        return next((each for each in found if each.subject == subject), None) or _no(subject, found)

    def told(self, subject: str) -> Finding:
        """What is said first about the subject."""
        found = self.findings()
        return next((each for each in found if each.subject == subject), None) or _no(subject, found)

    def paste(self, fix: str) -> None:
        """Does what the fix says: walrelay's commands, lines of the settings file, or SQL."""
        if fix.startswith("walrelay "):
            for command in fix.split("&&"):
                result = CliRunner().invoke(main, shlex.split(command, comments=True)[1:], catch_exceptions=False)
                assert result.exit_code == 0, result.output
        elif match := re.match(r"((?:source|outbox)[\w.]*): (.*?)(?:   #.*)?$", fix):
            *sections, name = match[1].split(".")
            place = self.settings
            for section in sections:
                place = place.setdefault(section, {})
            place[name] = yaml.safe_load(match[2])
        else:
            with psycopg.connect(self._operator, autocommit=True) as connection:
                for statement in re.sub(r"--.*", "", fix).split(";"):
                    if statement.strip():
                        connection.execute(statement.encode())


def _no(subject: str, found: list[Finding]) -> Finding:
    raise AssertionError(f"nothing about {subject!r} in {found}")


def as_role(dsn: str, role: str) -> str:
    return make_conninfo(dsn, user=role, password=role)
