"""A fake of AWS: moto, in a process of its own that keeps what it got."""

import importlib.util
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.request import Request, urlopen

from tests.servers.choose import Missing
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, temporary_directory
from tests.servers.waiting import wait_until

REGION = "eu-west-1"
ACCOUNT = "123456789012"
CREDENTIALS = {"access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE"}


class Fault(NamedTuple):
    """An answer that moto would not give. `operation`: as AWS has it, for entries in which the text is; or `whole ...`
    for whole requests (not of SNS).
    """

    operation: str
    code: str
    containing: str = ""
    times: int = 1
    senders: bool = False
    status: int = 400


class MotoServer:
    """Runs from when it is entered. After a kill it has its queues and the like again, and remembers no repetitions."""

    def __init__(self, *certificate: Path, trusted: Path | None = None) -> None:
        """`certificate`: with its key, by an authority that is `trusted`."""
        self.port = free_port()
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://{LOOPBACK}:{self.port}"
        self._certificate, self._trusted = certificate, trusted
        self._home = temporary_directory("aws")
        self._journal = self._home / "journal"
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Unless it runs."""
        if self._process is None or not self._process.running:
            program = Path(__file__).with_name("aws_server.py")
            self._process = ServerProcess(
                [sys.executable, program, str(self.port), self._journal, *self._certificate],
                log=self._home / "log",
                cwd=self._home,
                last_signal=signal.SIGKILL,
            )
            wait_until(self._answers, 60, "moto to listen", ignoring=self._patient_with())

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.signal(signal.SIGKILL)
        self._process.wait(10)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @cached_property
    def sqs(self) -> Any:
        return self.client("sqs")

    def client(self, service: str) -> Any:
        import boto3  # most sessions of tests need none
        from botocore.config import Config

        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["access_key_id"],
            aws_secret_access_key=CREDENTIALS["secret_access_key"],
            verify=None if self._trusted is None else str(self._trusted),
            config=Config(retries={"total_max_attempts": 1}, read_timeout=60),
        )

    def fail(self, *faults: Fault) -> None:
        """Instead of those before."""
        body = json.dumps([each._asdict() for each in faults]).encode()
        urlopen(Request(f"{self.url}/_faults", body, method="POST"), timeout=30).close()

    def arrived(self, place: str) -> Iterator[dict[str, Any]]:
        """What a queue or stream took, in its order."""
        text = self._journal.read_bytes() if self._journal.exists() else b""
        for line in text[: text.rfind(b"\n") + 1].splitlines():
            read = json.loads(line)
            if read["place"] == place:
                yield read

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.running:
            self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def _patient_with(self) -> type[Exception]:
        from botocore.exceptions import BotoCoreError

        found: type[Exception] = BotoCoreError
        return found

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.running, (self._home / "log").read_text()
        # Until moto has its modules, which takes seconds: the first request of a test would wait for them.
        return self.client("sts").get_caller_identity() is not None


def moto_is_installed() -> None:
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        raise Missing("moto[server] is not installed")
