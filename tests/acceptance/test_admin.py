"""The installed command `walrelay admin`, beside a relay and without one."""

import json
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY
from tests.servers import reaper


class AdminProcess:
    """`walrelay admin` as a child process; its log is on stderr."""

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


def test_it_tells_of_a_relay_that_runs_and_of_one_that_ended(deployment: Deployment) -> None:
    deployment.write_settings(admin={"listen": "127.0.0.1:0"})
    relay = deployment.start()
    deployment.write("1")
    deployment.catch_up()
    admin = AdminProcess(deployment.config)
    try:
        assert admin.first["event"] == "listening"
        (found,) = admin.get("/relays")["relays"]
        assert found["status"]["leader"]["application_name"] == "walrelay"
        assert found["status"]["active"] is True
        assert admin.get(f"/relays/{deployment.slot_name}/doctor")["ready"] is True
        relay.stop()
        assert admin.get(f"/relays/{deployment.slot_name}")["slot"] == deployment.slot_name
    finally:
        ended = admin.stop()
    assert ended == (0, "")
