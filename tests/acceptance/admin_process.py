"""The installed command `walrelay admin` as a child process."""

import json
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests.acceptance.relay_process import WALRELAY
from tests.servers import reaper


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

    def stop(self) -> tuple[int, str]:
        """The exit code, and what else was logged."""
        self._child.send_signal(signal.SIGTERM)
        _, said = self._child.communicate(timeout=60)
        reaper.forget_process(self._child.pid)
        return self._child.returncode, said
