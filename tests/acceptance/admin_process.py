"""The installed command `walrelay admin` as a child process."""

import json
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tests.acceptance.relay_process import WALRELAY
from tests.servers import reaper
from tests.servers.waiting import wait_until


class AdminProcess:
    """Runs from the moment it is made; `first`: the first line of its log."""

    def __init__(self, config: Path) -> None:
        self._child = subprocess.Popen(
            [WALRELAY, "admin", "--config", config],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        reaper.watch_process(self._child.pid, signal.SIGKILL)
        assert self._child.stderr is not None
        self.first = json.loads(self._child.stderr.readline())

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.first['port']}/api/v1{path}", timeout=60) as answer:
            return json.load(answer)

    def ask(self, path: str) -> int:
        """The status alone, whatever it is."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.first['port']}/api/v1{path}", timeout=90) as answer:
                return int(answer.status)
        except HTTPError as refused:
            return refused.code

    def post(self, path: str, body: Any) -> Any:
        """The answer, or the problem, if it is refused."""
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.first['port']}/api/v1{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return json.load(answer)
        except HTTPError as refused:
            return json.load(refused)

    def ended(self, relay: str, started: Any) -> Any:
        """The job that was started, when it is no longer at work."""

        def over() -> Any:
            job = self.get(f"/relays/{relay}/jobs/{started['job']}")
            return job if job["state"] != "running" else None

        return wait_until(over, 60, f"the job of {started} to end")

    def stop(self) -> tuple[int, str]:
        """The exit code, and what else was logged."""
        self._child.send_signal(signal.SIGTERM)
        _, said = self._child.communicate(timeout=60)
        reaper.forget_process(self._child.pid)
        return self._child.returncode, said
