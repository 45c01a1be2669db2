"""Commands of walrelay, each a process of its own."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.servers import reaper

_NEEDED = ("aiohttp", "psycopg", "yaml")


class Command:
    """One that was started."""

    def __init__(self, commands: "Commands", words: list[str], output: Path) -> None:
        self._commands, self.words, self._output = commands, words, output
        self.pid = commands.ask({"start": words, "output": str(output)})
        assert self.pid is not None
        reaper.watch_process(self.pid, signal.SIGKILL)
        self.status: int | None = None

    def wait(self, seconds: float) -> int | None:
        """The exit status; None where it runs on."""
        if self.status is None:
            self.status = self._commands.ask({"wait": self.pid, "seconds": seconds})
            if self.status is not None and self.pid is not None:
                reaper.forget_process(self.pid)
        return self.status

    @property
    def running(self) -> bool:
        return self.wait(0) is None

    def send(self, number: signal.Signals) -> None:
        assert self.pid is not None
        if self.running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait(10)

    @property
    def output(self) -> str:
        with suppress(FileNotFoundError):
            return self._output.read_text(errors="replace")
        return ""


class Commands:
    """Starts them in a directory. A context: what still runs at its end is killed."""

    def __init__(self, directory: Path, package: Path | None = None) -> None:
        """`package`: a directory with another walrelay than the one that is installed."""
        self._directory, self._started = directory, list[Command]()
        source = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [str(package or ""), source, os.environ.get("PYTHONPATH", "")]))
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.lives.zygote", *_NEEDED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=directory,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
        )
        reaper.watch_process(self._zygote.pid, signal.SIGKILL)
        self._answer()

    def start(self, *words: str) -> Command:
        command = Command(self, [*words], self._directory / f"output-{len(self._started)}")
        self._started.append(command)
        return command

    def run(self, *words: str, seconds: float = 30) -> Command:
        """Until it ends; one that takes longer is asked to end, as by Ctrl-C, and killed at last."""
        command = self.start(*words)
        for number in (signal.SIGINT, signal.SIGKILL):
            if command.wait(seconds) is not None:
                break
            command.send(number)
            seconds = 5
        command.wait(5)
        return command

    def ask(self, request: dict[str, object]) -> int | None:
        _pipe(self._zygote.stdin).write(json.dumps(request) + "\n")
        _pipe(self._zygote.stdin).flush()
        return self._answer()

    def forget(self) -> None:
        """Ends what runs, as between two lives."""
        for each in self._started:
            each.kill()
        self._started.clear()
        for path in self._directory.glob("output-*"):
            path.unlink()

    def _answer(self) -> int | None:
        line = _pipe(self._zygote.stdout).readline()
        assert line, "the process that starts commands has ended"
        found: int | None = json.loads(line)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(AssertionError, OSError, ValueError):
            self.forget()
        self._zygote.kill()
        self._zygote.wait()
        reaper.forget_process(self._zygote.pid)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
