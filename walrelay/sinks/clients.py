"""Client libraries are imported when a sink is opened, and may be missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from walrelay.errors import SinkError


@contextmanager
def client_library(broker: str, extra: str, package: str = "walrelay") -> Iterator[None]:
    """Around imports that need the client of that broker: Fatal, with the command that installs it."""
    try:
        yield
    except ImportError as cause:
        raise SinkError(
            f"the {broker} client is not installed ({cause})",
            hint=f"Install it in the environment walrelay runs in: pip install '{package}[{extra}]'",
        ) from cause
