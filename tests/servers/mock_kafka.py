"""librdkafka's mock cluster in a process of its own: a broker at once, for benchmarks and fast tests.

It makes a topic of four partitions when one is first named, checks idempotent sequences, and keeps the last 5 MB of
a partition in memory. It does not fence producers, hide aborted transactions or enforce message sizes: those tests
need KafkaServer.
"""

import subprocess
import sys
from typing import Self

from confluent_kafka import Producer

from tests.servers.topics import QUIET, Kafka


class MockKafka(Kafka):
    """Runs from start() to stop(). The child ends by itself when its standard input is closed."""

    def __init__(self, brokers: int = 1) -> None:
        super().__init__("")  # known when it runs
        self._brokers = brokers
        self._child: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", __name__, str(self._brokers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C goes to the tests, which end their servers in order
        )
        assert self._child.stdout is not None
        self.bootstrap_servers = self._for_tests = self._child.stdout.readline().strip()
        if not self.bootstrap_servers:
            raise RuntimeError(f"the mock cluster ended with status {self._child.wait(10)}")

    def stop(self) -> None:
        if self._child is None:
            return
        self._child.communicate(timeout=10)
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


def serve(brokers: int) -> None:
    """The child: say the address on standard output, live until standard input ends."""
    client = Producer({**QUIET, "test.mock.num.brokers": brokers})
    addresses = client.list_topics(timeout=10).brokers.values()
    sys.stdout.write(",".join(f"{broker.host}:{broker.port}" for broker in addresses) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
