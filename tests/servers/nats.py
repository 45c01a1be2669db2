"""NATS servers with JetStream, of the tests' own."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.servers.ports import LOOPBACK, free_port
from tests.servers.single import SingleServer
from walrelay.lab.servers.installed import nats_answers, nats_arguments


class NatsServer(SingleServer):
    """With JetStream. `settings`: more of its settings file."""

    NAME = "NATS"
    PATIENT_WITH = OSError

    def __init__(self, program: Path, settings: str = "") -> None:
        super().__init__(program)
        self._settings = settings

    @property
    def url(self) -> str:
        return f"nats://{LOOPBACK}:{self.port}"

    def _arguments(self) -> Sequence[str | Path]:
        return nats_arguments(self.port, self._home, self._settings)

    def _answers(self) -> bool:
        return nats_answers(self.port)


@contextmanager
def nats_cluster(program: Path, size: int = 3) -> Iterator[list[NatsServer]]:
    """Servers that know each other. Streams can be made as soon as they have elected a leader."""
    ports = [free_port() for _ in range(size)]
    routes = ", ".join(f"nats-route://{LOOPBACK}:{port}" for port in ports)
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                NatsServer(program, f'cluster {{ name: test, listen: "{LOOPBACK}:{port}", routes: [{routes}] }}')
            )
            for port in ports
        ]
