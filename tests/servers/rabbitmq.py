"""A RabbitMQ node of the tests' own."""

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Self

from tests.servers.certificates import Authority
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, temporary_directory
from tests.servers.waiting import wait_until
from walrelay.lab.servers.installed import RabbitmqPlace, RabbitmqPrograms


class RabbitmqServer:
    """Runs from when it is entered.

    Over TLS, at `tls_url`, it asks for a certificate of `authority`, which has signed its own.
    """

    def __init__(self, programs: RabbitmqPrograms) -> None:
        self._programs, self._tls_port = programs, free_port()
        self._home = temporary_directory("rabbitmq")
        self._place = RabbitmqPlace(self._home, free_port(), free_port(), free_port())
        self.port, self.url = self._place.port, self._place.url
        self.tls_url = f"amqps://guest:guest@localhost:{self._tls_port}/"
        self.authority = Authority(self._home)
        self._certificate, self._key = self.authority.sign("rabbitmq")
        self._log = self._home / "log"
        self._processes: list[ServerProcess] = []

    def __enter__(self) -> Self:
        try:
            self._start(self._programs.port_mapper, *self._place.port_mapper_arguments)
            wait_until(self._place.mapper_answers, 10, "Erlang's port mapper", ignoring=OSError)
            self.start()
        except BaseException as error:
            error.add_note(self._log.read_text(errors="replace")[-5000:])
            self.__exit__()
            raise
        return self

    def start(self) -> None:
        """Unless it runs. What was persistent when it was killed is there again."""
        if len(self._processes) < 2 or not self._processes[-1].running:
            del self._processes[1:]
            self._start(self._programs.server)
            wait_until(self._answers, 60, "RabbitMQ to answer", ignoring=OSError)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._processes[-1].signal(signal.SIGKILL)
        self._processes[-1].wait(10)

    @property
    def pid(self) -> int:
        """Of the node's process."""
        return self._processes[-1].pid

    @property
    def version(self) -> str:
        """As the node says it."""
        return self.control("version").strip()

    def control(self, *command: str) -> str:
        """What rabbitmqctl says."""
        program = str(self._programs.server.with_name("rabbitmqctl"))
        command = program, "-q", *command
        environment = self._environment()
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120)
        return done.stdout

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            if process.running:
                process.signal(signal.SIGKILL)
                process.wait(10)
        shutil.rmtree(self._home, ignore_errors=True)

    def _start(self, *command: str | Path) -> None:
        process = ServerProcess(
            command, log=self._log, cwd=self._home, last_signal=signal.SIGKILL, environment=self._environment()
        )
        self._processes.append(process)

    def _environment(self) -> dict[str, str]:
        return self._place.environment(
            f"listeners.ssl.1 = {LOOPBACK}:{self._tls_port}",
            f"ssl_options.cacertfile = {self.authority.certificate}",
            f"ssl_options.certfile = {self._certificate}",
            f"ssl_options.keyfile = {self._key}",
            "ssl_options.verify = verify_peer",
            "ssl_options.fail_if_no_peer_cert = true",
        )

    def _answers(self) -> bool:
        if not self._processes[-1].running:
            raise RuntimeError(f"RabbitMQ ended while starting:\n{self._log.read_text(errors='replace')}")
        return self._place.answers()
