"""Waiting for a condition: the only place in the tests that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SHORTEST, _LONGEST = 0.02, 0.2  # seconds between two questions


class NotInTime(AssertionError):
    """A condition did not become true in time."""


def wait_until(
    condition: Callable[[], T],
    timeout: float,
    what: str,
    *,
    interval: float | None = None,
    ignoring: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:
    """The first true value of `condition`; `what` completes "waited 5 s for ..." when none came.

    Errors in `ignoring` count as "not yet"; the last of them becomes the cause of NotInTime. `interval`: seconds
    between two questions; None: a tenth of what was waited, because a question costs CPU that others wait for.
    """
    began = time.monotonic()
    deadline = began + timeout
    while True:
        refusal: Exception | None = None
        try:
            value = condition()
        except ignoring as error:
            refusal = error
        else:
            if value:
                return value
        if time.monotonic() >= deadline:
            raise NotInTime(f"waited {timeout:g} s for {what}") from refusal
        waited = time.monotonic() - began
        time.sleep(min(max(waited / 10, _SHORTEST), _LONGEST) if interval is None else interval)
