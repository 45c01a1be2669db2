"""The processes of docs/examples/shop, started as its README says."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import httpx

from tests.servers import reaper
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.waiting import wait_until

SHOP = Path(__file__).parents[2] / "docs" / "examples" / "shop"


class ExampleProcess:
    """One of them. It may be killed, and started again with the same command."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self._command, self._environment, self._log = command, {**os.environ, **environment}, log
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        output: IO[bytes]
        with self._log.open("ab") as output:
            self._child = subprocess.Popen(
                self._command,
                cwd=SHOP,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        reaper.watch_process(self._child.pid, signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL, if it was started, and wait until it is gone."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait(20)
            reaper.forget_process(child.pid)

    def restart(self) -> None:
        self.kill()
        self.start()

    def log(self) -> str:
        return self._log.read_text(errors="replace")


class OrderService(ExampleProcess):
    """uvicorn on a port of its own."""

    def __init__(self, environment: Mapping[str, str], directory: Path) -> None:
        self._url = f"http://{LOOPBACK}:{(port := free_port())}"
        command = [sys.executable, "-m", "uvicorn", "orders:app", "--host", LOOPBACK, "--port", str(port)]
        super().__init__(command, environment, directory / "orders.log")

    def start(self) -> None:
        super().start()
        wait_until(lambda: httpx.get(f"{self._url}/docs").is_success, 30, "uvicorn", ignoring=httpx.HTTPError)

    def place(self, key: str, customer: str, total: str) -> httpx.Response:
        """The command; an httpx.HTTPError where nobody answers."""
        headers = {"Idempotency-Key": key, "Authorization": f"Bearer {customer}"}
        order = {"customer": customer, "total": total}
        return httpx.post(f"{self._url}/orders", json=order, headers=headers, timeout=10)

    def cancel(self, key: str, customer: str, order: str) -> httpx.Response:
        headers = {"Idempotency-Key": key, "Authorization": f"Bearer {customer}"}
        return httpx.post(f"{self._url}/orders/{order}/cancel", headers=headers, timeout=10)
