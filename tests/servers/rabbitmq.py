"""A RabbitMQ node of the tests' own, with a port mapper of its own: Erlang's would be shared, and outlive the node."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Self

from tests.servers.certificates import Authority
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, temporary_directory
from tests.servers.waiting import wait_until


class RabbitmqServer:
    """Runs from when it is entered. `home` is the server's directory, in which the programs are in `sbin`.

    Over TLS, at `tls_url`, it asks for a certificate of `authority`, which has signed its own.
    """

    def __init__(self, home: Path, port_mapper: Path) -> None:
        self.port, self._tls_port, self._port_mappers_port = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@{LOOPBACK}:{self.port}/"
        self.tls_url = f"amqps://guest:guest@localhost:{self._tls_port}/"
        self._server, self._port_mapper = home / "sbin" / "rabbitmq-server", port_mapper
        self._home = temporary_directory("rabbitmq")
        self.authority = Authority(self._home)
        self._certificate, self._key = self.authority.sign("rabbitmq")
        self._log = self._home / "log"
        self._processes: list[ServerProcess] = []

    def __enter__(self) -> Self:
        try:
            self._start(self._port_mapper, "-port", str(self._port_mappers_port), "-address", LOOPBACK)
            wait_until(self._mapper_answers, 10, "Erlang's port mapper", ignoring=OSError)
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
            self._start(self._server)
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
        program = str(self._server.with_name("rabbitmqctl"))
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
        settings = self._home / "rabbitmq.conf"
        settings.write_text(
            f"listeners.tcp.1 = {LOOPBACK}:{self.port}\n"
            f"listeners.ssl.1 = {LOOPBACK}:{self._tls_port}\n"
            f"ssl_options.cacertfile = {self.authority.certificate}\n"
            f"ssl_options.certfile = {self._certificate}\n"
            f"ssl_options.keyfile = {self._key}\n"
            "ssl_options.verify = verify_peer\n"
            "ssl_options.fail_if_no_peer_cert = true\n"
            "log.console = true\n"
            "log.file = false\n"
        )
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self._home),  # the cookie is there
            "ERL_EPMD_PORT": str(self._port_mappers_port),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_CONFIG_FILE": str(settings),
            "RABBITMQ_CONF_ENV_FILE": str(self._home / "none.conf"),
            "RABBITMQ_MNESIA_BASE": str(self._home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self._home / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._home / "plugins"),
            "RABBITMQ_PID_FILE": str(self._home / "pid"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self._home / "generated"),
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the server, instead of waiting for it
        }

    def _mapper_answers(self) -> bool:
        with socket.create_connection((LOOPBACK, self._port_mappers_port), 1):
            return True

    def _answers(self) -> bool:
        if not self._processes[-1].running:
            raise RuntimeError(f"RabbitMQ ended while starting:\n{self._log.read_text(errors='replace')}")
        with socket.create_connection((LOOPBACK, self.port), 1) as client:
            client.sendall(b"AMQP\0\0\x09\x01")
            return client.recv(1) == b"\x01"
