"""Addresses on the loopback for the servers that are started here."""

import socket

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A TCP port of the loopback that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port
