"""TCP ports on the loopback interface for servers that keep theirs over a restart."""

import os
import random
import socket
from collections.abc import Mapping

LOOPBACK = "127.0.0.1"

# Below the ports that kernels give to outgoing connections: a client cannot sit on a stopped server's port.
_ALL = range(20000, 32000)


def ports_of(environ: Mapping[str, str]) -> range:
    """Of the processes that run tests at the same time each has its own: a stopped server's port stays free for it."""
    worker = int(environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = int(environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return _ALL[worker % count :: count]


_PORTS = ports_of(os.environ)
_handed_out: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on, never the same twice."""
    for port in random.sample(_PORTS, len(_PORTS)):
        if port not in _handed_out and _is_free(port):
            _handed_out.add(port)
            return port
    raise RuntimeError("no free port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: the remains of closed connections do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
