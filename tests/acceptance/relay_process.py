"""The installed command `walrelay run` as a child process, and what it says on stderr."""

import json
import os
import re
import signal
import subprocess
import sysconfig
import threading
from pathlib import Path
from typing import Any

from tests.servers import reaper
from tests.servers.waiting import NotInTime, wait_until

WALRELAY = Path(sysconfig.get_path("scripts")) / "walrelay"

LogEvent = dict[str, Any]


class RelayProcess:
    """Runs from the moment it is made; its log is JSON lines, which a thread collects."""

    def __init__(self, config: Path, *options: str) -> None:
        self._child = subprocess.Popen(
            [WALRELAY, "run", "--config", config, *options],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C goes to the tests, which end the relay in order
        )
        reaper.watch_process(self.pid, signal.SIGKILL)
        self.log: list[LogEvent] = []
        self.not_json: list[str] = []
        self._listener = threading.Thread(target=self._listen, name=f"log of {self.pid}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    @property
    def peak_rss_bytes(self) -> int:
        """The most memory the process ever had resident."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def events(self, event: str) -> list[LogEvent]:
        """The log lines with that phrase so far."""
        return [entry for entry in list(self.log) if entry["event"] == event]

    def wait_for(self, event: str, *, more_than: int = 0, containing: str = "", timeout: float = 60) -> LogEvent:
        """The next log line with that phrase after the first `more_than` of them; `containing` anywhere in it."""

        def found() -> LogEvent | None:
            matching = [entry for entry in self.events(event) if containing in json.dumps(entry)]
            if len(matching) > more_than:
                return matching[more_than]
            if not self._listener.is_alive():
                raise AssertionError(f"the relay ended before {event!r}: {self.log[-5:]} {self.not_json}")
            return None

        try:
            entry = wait_until(found, timeout, f"{event!r} in the log")
        except NotInTime as error:
            error.add_note(f"the log ends in {self.log[-5:]}")
            raise
        assert entry is not None
        return entry

    def rests(self) -> None:
        """That for three seconds it takes less than a tenth of a core: nothing goes round and round."""
        before = self._cpu_seconds()
        self.lives_for(3)
        assert self._cpu_seconds() - before < 0.3, "a relay that waits is busy"

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def lives_for(self, seconds: float) -> None:
        """Returns after that time, in which the relay may not end."""
        try:
            status = self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"the relay ended with status {status}: {self.log[-5:]} {self.not_json}")

    def send(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._child.kill()
        self.wait()

    def stop(self, timeout: float = 40) -> None:
        """SIGTERM; the relay must leave in good order."""
        self.send(signal.SIGTERM)
        assert self.wait(timeout) == 0, self.log[-5:]

    def wait(self, timeout: float = 40) -> int:
        """The exit status, when the process has ended and all it said is collected."""
        status = self._child.wait(timeout)
        reaper.forget_process(self.pid)
        self._listener.join(5)
        return status

    def _listen(self) -> None:
        assert self._child.stderr is not None
        for line in self._child.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.not_json.append(line)
