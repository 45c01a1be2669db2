"""TCP ports on the loopback interface for servers that keep theirs over a restart."""

import random
import socket

LOOPBACK = "127.0.0.1"

# Below the ports that kernels give to outgoing connections: a client cannot sit on a stopped server's port.
_PORTS = range(20000, 32000)

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
