"""Requests that are made again until they are answered, each through the gate of its place."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from time import monotonic
from typing import NamedTuple

from walrelay.sinks.hosting.circuit import Gate, backed_off


class NotAnswered(NamedTuple):
    """Why a request is made again. `speaks_for_all`: nor would another one be answered now. `pause`: so many seconds,
    if that was asked for. `too_fast`: it may have been, so that the rate grows slowly afterwards.
    """

    why: str
    speaks_for_all: bool = False
    pause: float | None = None
    too_fast: bool = False


class PatientRequests:
    """Of a connection: its requests, and why some of them are not through."""

    def __init__(self) -> None:
        self._numbers = count()
        self._complaints: dict[int, str] = {}  # by the request's number, the newest last

    async def until_answered(self, gate: Gate, request: Callable[[float], Awaitable[NotAnswered | None]]) -> None:
        """`request` is given the time at which it begins, and says None once there is an answer."""
        number, failures = next(self._numbers), 0

        async def attempt() -> NotAnswered | None:
            began = monotonic()
            failure = await request(began)
            if failure is not None:
                _, speaks_for_all, pause, too_fast = failure
                gate.circuit.failed(
                    number, began, monotonic(), speaks_for_all=speaks_for_all, pause=pause, too_fast=too_fast
                )
            return failure

        try:
            while (failure := await gate.through(attempt)) is not None:
                failures += 1
                self._complaints.pop(number, None)
                self._complaints[number] = failure.why
                if not gate.circuit.open:
                    await asyncio.sleep(backed_off(failures))
        finally:
            self._complaints.pop(number, None)

    def trouble(self, place: str) -> str:
        """See `walrelay.publish.Sink.trouble`."""
        if not self._complaints:
            return ""
        why = next(reversed(self._complaints.values()))
        number = len(self._complaints)
        return f"{place}: {why}" + (f" ({number:,} messages wait)" if number > 1 else "")
