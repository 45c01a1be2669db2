"""Servers that are installed on this machine: their programs, how they are told to keep to one directory and the
loopback, and when they answer. For demos, benchmarks and tests.
"""

import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.lab.servers.backstage import LOOPBACK

_HINT = "Install it (apt-get install {}), or use a server of your own: --sink-url."
_PATIENCE = 1.0  # seconds for an answer over the loopback


def program(name: str, what: str, package: str) -> Path:
    """Fatal where it is not installed. Debian keeps some out of an ordinary user's path."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        raise Fatal(f"{what} is not installed: there is no {name} on PATH", hint=_HINT.format(package))
    return Path(found)


def redis_program() -> Path:
    return program("redis-server", "Redis", "redis-server")


def redis_arguments(port: int, directory: Path) -> Sequence[str | Path]:
    """It keeps nothing on disk."""
    return ["--bind", LOOPBACK, "--port", str(port), "--dir", str(directory), "--save", "", "--appendonly", "no"]


def redis_answers(port: int) -> bool:
    """OSError as long as nobody listens."""
    with socket.create_connection((LOOPBACK, port), _PATIENCE) as client:
        client.sendall(b"PING\r\n")
        return client.recv(7) == b"+PONG\r\n"


def nats_program() -> Path:
    return program("nats-server", "NATS", "nats-server")


def nats_arguments(port: int, directory: Path, settings: str = "") -> Sequence[str | Path]:
    """With JetStream. `settings`: more of its settings file."""
    file = directory / "nats.conf"
    file.write_text(f'server_name: "{port}"\njetstream {{ store_dir: "{directory}/data" }}\n{settings}\n')
    return ["--addr", LOOPBACK, "--port", str(port), "--config", file]


def nats_answers(port: int) -> bool:
    """JetStream is ready before a client is greeted. OSError as long as nobody listens."""
    with socket.create_connection((LOOPBACK, port), _PATIENCE) as client:
        return client.recv(4) == b"INFO"


class RabbitmqPrograms(NamedTuple):
    """`home` has them in `sbin`."""

    home: Path
    port_mapper: Path

    @property
    def server(self) -> Path:
        return self.home / "sbin" / "rabbitmq-server"


def rabbitmq_programs() -> RabbitmqPrograms:
    """Those of the newest version."""
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    if not found:
        raise Fatal("RabbitMQ is not installed", hint=_HINT.format("rabbitmq-server"))
    return RabbitmqPrograms(found[-1], program("epmd", "Erlang", "rabbitmq-server"))


class RabbitmqPlace(NamedTuple):
    """Where a node is. The port mapper is its own: Erlang's would be shared, and outlive the node."""

    directory: Path
    port: int
    port_mappers_port: int
    nodes_port: int  # at which other nodes would find it

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{LOOPBACK}:{self.port}/"

    @property
    def port_mapper_arguments(self) -> Sequence[str]:
        return ["-port", str(self.port_mappers_port), "-address", LOOPBACK]

    def environment(self, *settings: str) -> dict[str, str]:
        """Of the node and of its port mapper. Writes the file of settings, which has these lines too."""
        file = self.directory / "rabbitmq.conf"
        own = (f"listeners.tcp.1 = {LOOPBACK}:{self.port}",)
        file.write_text("".join(f"{line}\n" for line in (*own, *settings)))
        others = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
        return {
            **others,
            "LANG": "C.UTF-8",
            "HOME": str(self.directory),  # the cookie is there
            "ERL_EPMD_PORT": str(self.port_mappers_port),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.nodes_port),
            "RABBITMQ_CONFIG_FILE": str(file),
            "RABBITMQ_CONF_ENV_FILE": str(self.directory / "none.conf"),
            "RABBITMQ_MNESIA_BASE": str(self.directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.directory / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "plugins"),
            "RABBITMQ_PID_FILE": str(self.directory / "pid"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.directory / "generated"),
            "RABBITMQ_LOGS": "-",  # standard output
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the server, instead of waiting for it
        }

    def mapper_answers(self) -> bool:
        with socket.create_connection((LOOPBACK, self.port_mappers_port), _PATIENCE):
            return True

    def answers(self) -> bool:
        with socket.create_connection((LOOPBACK, self.port), _PATIENCE) as client:
            client.sendall(b"AMQP\0\0\x09\x01")
            return client.recv(1) == b"\x01"
