"""The pages of the documentation as what a reader does who follows them: each block as pasted, one after the other."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

import yaml

from tests.acceptance.relay_process import WALRELAY
from tests.servers import reaper
from tests.servers.waiting import wait_until

ROOT = Path(__file__).parents[2]
KINDS = ("sh", "sql", "python", "yaml", "json", "text")  # text: what is shown, and not for pasting

_BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- not run: (?P<reason>.+?) -->\n\1)?```(?P<kind>.*)\n(?P<text>(?s:.*?))^\1```$", re.M
)
_RUN = re.compile(r"^walrelay run\b", re.M)
_REST = {"source": "source: {dsn: '${DATABASE_URL}'}", "sink": "sink: {kind: kafka, bootstrap_servers: localhost:9092}"}

# Each line of its input is a block; all of them share one namespace, as in a notebook.
_PYTHON = """
import json, os, sys, traceback
answers, names = os.fdopen(os.dup(1), "w", buffering=1), {"__name__": "__main__"}
os.dup2(2, 1)
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "<page>", "exec"), names)
        print("", file=answers)
    except BaseException:
        print(json.dumps(traceback.format_exc()), file=answers)
"""


class Block(NamedTuple):
    """`reason`: why it is not run; empty: it is."""

    page: str
    line: int
    kind: str
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> dict[str, list[Block]]:
    """The blocks of each page that has some, decisions left out."""
    places = [(ROOT / "docs").glob("*.md"), *((ROOT / "docs" / name).rglob("*.md") for name in ("guides", "examples"))]
    files = [ROOT / "README.md", *(file for place in places for file in sorted(place))]
    found = {str(file.relative_to(ROOT)): file.read_text() for file in files}
    return {name: blocks for name, text in found.items() if (blocks := list(_blocks(name, text)))}


def _blocks(page: str, text: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("text"))
        lines = (each.removeprefix(found["indent"]) for each in found["text"].splitlines())
        yield Block(page, line, found["kind"], "\n".join(lines), found["reason"] or "")


class Reader:
    """Pastes blocks in a directory of its own. `walrelay run` goes on in the background until the next, or the end."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        path = os.pathsep.join([str(WALRELAY.parent), os.environ["PATH"]])
        only_what_is_there = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self._environment = {**os.environ, **environment, **only_what_is_there, "PATH": path}
        self._python: subprocess.Popen[str] | None = None
        self._relay: subprocess.Popen[bytes] | None = None
        self._log = directory / "relay.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            stack.callback(self._end_python)
            self._end_relay()

    def paste(self, block: Block) -> None:
        """AssertionError, with what was said, where it fails."""
        match block.kind:
            case "sh":
                self._shell(block)
            case "sql":
                self._bash(block, 'psql "$DATABASE_URL" -qv ON_ERROR_STOP=1', block.text)
            case "python":
                self._exec(block)
            case "yaml":
                given = yaml.safe_load(block.text)
                given |= {"sink": None} if "sinks" in given else {}
                rest = [text for section, text in _REST.items() if section not in given and "relays" not in given]
                (self._directory / "page.yaml").write_text("\n".join([block.text, *rest]))
                self._bash(block, "walrelay config check -c page.yaml")
            case "json":
                json.loads(block.text)

    def _shell(self, block: Block) -> None:
        before, *runs = _RUN.split(block.text)
        self._bash(block, before)
        for run in runs:
            options, _, after = run.partition("\n")
            self._end_relay()
            self._run(f"exec walrelay run{options}")
            self._bash(block, after)

    def _bash(self, block: Block, script: str, given: str = "y\n" * 9) -> None:
        """`given`: whoever is asked says yes."""
        if not script.strip():
            return
        command = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{block}: exit code {done.returncode}\n{script}\n{done.stdout}{done.stderr}"

    def _run(self, script: str) -> None:
        with self._log.open("wb") as log:
            self._relay = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        reaper.watch_process(self._relay.pid, signal.SIGKILL)
        wait_until(self._streams, 30, f"a relay that streams: {self._log}")

    def _streams(self) -> bool:
        assert self._relay is not None
        said = self._log.read_text()
        assert self._relay.poll() is None, said
        return '"event": "streaming"' in said

    def _end_relay(self) -> None:
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.terminate()
            code = relay.wait(40)
            reaper.forget_process(relay.pid)
            assert code == 0, self._log.read_text()

    def _exec(self, block: Block) -> None:
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, "-c", _PYTHON],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            reaper.watch_process(self._python.pid, signal.SIGKILL)
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        print(json.dumps(block.text), file=self._python.stdin, flush=True)
        answer = self._python.stdout.readline().strip()
        assert answer == "", f"{block}:\n{json.loads(answer)}"

    def _end_python(self) -> None:
        if self._python is not None:
            self._python.kill()
            self._python.wait(20)
            reaper.forget_process(self._python.pid)
