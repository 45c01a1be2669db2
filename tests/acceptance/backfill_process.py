"""`walrelay init --backfill`, `recover` and `replay` as child processes that tests kill."""

import re
import signal
import subprocess
import threading
from pathlib import Path

from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY
from tests.servers import reaper
from tests.servers.waiting import wait_until


class BackfillProcess:
    """Runs from the moment it is made."""

    def __init__(self, deployment: Deployment, *command: str) -> None:
        self._deployment = deployment
        self._child = subprocess.Popen(
            [WALRELAY, *command, "--config", deployment.config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        reaper.watch_process(self.pid, signal.SIGKILL)
        self._said: list[str] = []
        self._listener = threading.Thread(target=self._listen, name=f"output of {self.pid}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def peak_rss_bytes(self) -> int:
        """The most memory the process ever had resident; 0 when it has ended."""
        try:
            found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        except FileNotFoundError:
            return 0
        return int(found[1]) * 1024 if found else 0

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def published(self) -> int:
        """What walrelay.slots knows to be published; 0 when there is no backfill under way."""
        rows = self._deployment.database.execute(
            "SELECT coalesce((backfill->>'published')::int, 0) FROM walrelay.slots"
        )
        return int(rows[0][0]) if rows else 0

    def kill_after(self, rows: int) -> None:
        """SIGKILL when so many more rows are known to be published."""
        self.reaches(rows)
        self.kill()

    def kill(self) -> None:
        """SIGKILL."""
        self._child.kill()
        self.wait()

    def interrupt(self) -> None:
        """SIGINT, as by Ctrl-C."""
        self._child.send_signal(signal.SIGINT)

    def terminate_after(self, rows: int) -> None:
        """SIGTERM when so many more rows are known to be published."""
        self.reaches(rows)
        self._child.terminate()

    def reaches(self, rows: int) -> None:
        """Waits until so many more rows are known to be published."""
        enough = self.published() + rows
        wait_until(
            lambda: not self.running or self.published() >= enough,
            30,
            f"{enough} rows to be published",
            interval=0.005,  # a batch takes 0.07 s
        )
        assert self.running, self.output()

    def waits_for(self, text: str, timeout: float = 30) -> None:
        """Waits until it says so."""
        wait_until(lambda: text in self.output(), timeout, f"{text!r} to be said")

    def wait(self, timeout: float = 60) -> int:
        """The exit status."""
        status = self._child.wait(timeout)
        reaper.forget_process(self.pid)
        self._listener.join(5)
        return status

    def output(self) -> str:
        """All it said so far."""
        return "".join(self._said)

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._said.append(line)
