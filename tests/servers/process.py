"""A server process: started as an unprivileged account where need be, its output in a file, ended by its pid."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.servers import reaper
from walrelay.lab.servers.backstage import SystemUser

_MEMORY = Path("/dev/shm")
_GB = 10**9


@cache
def memory() -> Path | None:
    """Where files are kept in memory, for tests and where there is room: making the files of a database takes ten times
    as long on a disk. A benchmark's servers stay there.
    """
    if "PYTEST_VERSION" not in os.environ or not os.access(_MEMORY, os.W_OK):
        return None
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _MEMORY if installed > 12 * _GB and shutil.disk_usage(_MEMORY).free > 8 * _GB else None


def temporary_directory(name: str, account: SystemUser | None = None, *, within: Path | None = None) -> Path:
    """A new directory owned by `account`, deleted at the latest when the test process is gone."""
    path = Path(tempfile.mkdtemp(prefix=f"walrelay-{name}-", dir=within))
    reaper.watch_directory(path)
    if account is not None:
        os.chown(path, account.uid, account.gid)
    return path


class ServerProcess:
    """A running child process, known to the reaper until it was waited for."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        cwd: Path,
        last_signal: signal.Signals,
        account: SystemUser | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        identity = account.identity() if account is not None else {}
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the tests, which end their servers in order
                **identity,
            )
        reaper.watch_process(self._child.pid, last_signal)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        if self._child.poll() is None:
            return True
        reaper.forget_process(self.pid)
        return False

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def wait(self, timeout: float) -> None:
        """Raises subprocess.TimeoutExpired when the process outlives `timeout`."""
        self._child.wait(timeout)
        reaper.forget_process(self.pid)
