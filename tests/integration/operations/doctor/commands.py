"""walrelay's commands for one settings file, in this process, and a relay until it is known what comes of it."""

import re
import shlex
import sys
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import psycopg
import yaml

from tests.servers.waiting import wait_until
from walrelay import compose
from walrelay.cli import main
from walrelay.config import Settings
from walrelay.errors import Fatal, WalrelayError
from walrelay.observe import Confirmed, Happening, Noticed, Relayed, Retrying, Streaming
from walrelay.supervise import Stop

PATIENCE = 30.0


class Told(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str


class RelayState:
    """What becomes of a relay: the first of a record that is settled, an error, and what it waits for."""

    def __init__(self) -> None:
        self.streams = False
        self.records = 0
        self.settled = False
        self.waits = ""
        self.notices: list[str] = []

    def saw(self, happening: Happening) -> None:
        match happening:
            case Streaming():
                self.streams = True
            case Relayed():
                self.records += happening.records
            case Confirmed():
                self.settled |= self.records > 0 and not happening.unsettled
            case Noticed():
                self.notices.append(happening.text)
            case Retrying():
                self.waits = happening.cause


class Commands:
    """`settings` as in the file; `capture` is pytest's capfd, because `tail` writes to the descriptor."""

    def __init__(self, settings: dict[str, Any], directory: Path, capture: Any) -> None:
        self.settings, self._file, self._capture = settings, directory / "walrelay.yaml", capture

    def walrelay(self, *command: str) -> Told:
        self._file.write_text(yaml.safe_dump(self.settings))
        self._capture.readouterr()
        code = 0
        try:
            main.main([*command, "-c", str(self._file)], standalone_mode=True)
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        out, err = self._capture.readouterr()
        assert "Traceback" not in err
        return Told(code, out, err)

    def paste(self, fix: str, operator: str) -> None:
        """Does what the fix says: walrelay's commands, a line of the settings, or SQL as a superuser at `operator`."""
        assert "..." not in fix
        if fix.startswith("walrelay "):
            self._do(fix.partition("   #")[0])
        elif match := re.match(r"((?:source|outbox)[\w.]*): (.*?)(?:   #.*)?$", fix):
            *sections, name = match[1].split(".")
            place = self.settings
            for section in sections:
                place[section] = place = {**place.get(section, {})}
            place[name] = yaml.safe_load(match[2])
            if then := re.search(r"   # .*; then (walrelay [^()]*)", fix):
                self._do(then[1])
        else:
            with psycopg.connect(operator, autocommit=True) as connection:
                for statement in re.sub(r"--.*", "", fix).split(";"):
                    if statement.strip():
                        connection.execute(statement.encode())

    def _do(self, commands: str) -> None:
        for command in commands.split("&&"):
            words = shlex.split(command)[1:]
            told = self.walrelay(*words, *(["--yes", "--all"] if words[0] == "recover" else []))
            assert told.code == 0, told

    def relays(self, *, event: bool) -> tuple[str, str]:
        """What becomes of a relay, and of the event if there is one: relayed, refused or waits; and what it said."""
        stop, seen, errors = Stop(), RelayState(), list[WalrelayError]()
        settings = Settings.model_validate(self.settings)

        def run() -> None:
            try:
                compose.relay_until(stop, compose.wiring(settings), seen)
            except WalrelayError as error:
                errors.append(error)

        thread = Thread(target=run)
        thread.start()

        def done() -> bool:
            return seen.settled if event else seen.streams

        try:
            wait_until(
                lambda: errors or seen.waits or done(), PATIENCE, "an event to be relayed, or the relay to say why not"
            )
        finally:
            stop.set()
            thread.join(PATIENCE)
        if errors:
            assert isinstance(errors[0], Fatal)
            assert errors[0].hint
            return "refused", f"{errors[0]} {errors[0].hint}"
        return ("relayed", "") if done() else ("waits", seen.waits)
