"""A server of one program, in a directory of its own."""

import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

from tests.servers.ports import free_port
from tests.servers.process import ServerProcess, temporary_directory
from tests.servers.waiting import wait_until
from walrelay.lab.servers.backstage import SystemUser


class SingleServer(ABC):
    """Runs from when it is entered. Subclasses say how it is started, and when it answers."""

    NAME: ClassVar[str]
    PATIENT_WITH: ClassVar[type[Exception]]
    """What asking it raises before it answers."""

    LAST_SIGNAL: ClassVar[signal.Signals] = signal.SIGKILL
    START_WITHIN: ClassVar[float] = 20
    """Seconds."""

    def __init__(self, program: Path, account: SystemUser | None = None, *, within: Path | None = None) -> None:
        self.port = free_port()
        self._program, self._account = program, account
        self._home = temporary_directory(self.NAME.lower(), account, within=within)
        self._log = self._home / "log"
        self._process: ServerProcess | None = None

    @abstractmethod
    def _arguments(self) -> Sequence[str | Path]:
        """Of the program."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it does; it may raise PATIENT_WITH instead."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Unless it runs. What it wrote before is there again."""
        if self._process is None or not self._process.running:
            self._process = ServerProcess(
                [self._program, *self._arguments()],
                log=self._log,
                cwd=self._home,
                last_signal=self.LAST_SIGNAL,
                account=self._account,
            )
            wait_until(self._runs_and_answers, self.START_WITHIN, f"{self.NAME} to answer", ignoring=self.PATIENT_WITH)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.signal(signal.SIGKILL)
        self._process.wait(10)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.running:
            self._process.signal(self.LAST_SIGNAL)
            self._process.wait(10)
        shutil.rmtree(self._home, ignore_errors=True)

    def _runs_and_answers(self) -> bool:
        assert self._process is not None
        if not self._process.running:
            raise RuntimeError(f"{self.NAME} ended while starting:\n{self._log.read_text()}")
        return self._answers()
