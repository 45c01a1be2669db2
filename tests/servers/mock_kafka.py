"""librdkafka's mock cluster in a process of its own: a broker at once, for benchmarks and fast tests.

It makes a topic of four partitions when one is first named, checks idempotent sequences, and keeps the last 5 MB of
a partition in memory. It does not fence producers, hide aborted transactions or enforce message sizes: those tests
need KafkaServer.
"""

import signal
import subprocess
import sys
from typing import Self

from tests.servers import reaper
from tests.servers.topics import Kafka


class MockKafka(Kafka):
    """That of the demo; runs from start() to stop()."""

    def __init__(self, brokers: int = 1) -> None:
        super().__init__("")  # known when it runs
        self._brokers = brokers
        self._child: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "walrelay.lab.servers.kafka", str(self._brokers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C goes to the tests, which end their servers in order
        )
        reaper.watch_process(self._child.pid, signal.SIGKILL)
        assert self._child.stdout is not None
        self.bootstrap_servers = self._for_tests = self._child.stdout.readline().strip()
        if not self.bootstrap_servers:
            raise RuntimeError(f"the mock cluster ended with status {self._child.wait(10)}")

    def stop(self) -> None:
        if self._child is None:
            return
        self._child.kill()
        self._child.communicate(timeout=10)
        reaper.forget_process(self._child.pid)
        self._child = None

    @property
    def pid(self) -> int:
        if self._child is None:
            raise RuntimeError("the mock cluster does not run")
        return self._child.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
