"""Streams of server-sent events: however many wait for a database, the routes of the API are answered."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, cast

from anyio import to_thread

from walrelay.admin.access import Caller
from walrelay.admin.stream import Streams, _events
from walrelay.admin.watching import AdminWatch


class HangingWatch:
    """A watch whose databases do not answer."""

    closed = False

    def __init__(self) -> None:
        self.answers = Event()

    @contextmanager
    def watching(self, tell: Callable[[], None]) -> Iterator[None]:
        yield

    def overview(self) -> Any:
        self.answers.wait(60)
        raise AssertionError("nothing is to be told")

    latest = overview


def test_streams_that_wait_for_a_database_take_no_thread_from_other_requests() -> None:
    watch, streams = HangingWatch(), Streams()
    caller = Caller("oncall", "token", "read")

    async def one() -> None:
        async for _ in _events(cast(AdminWatch, watch), caller, None, streams, 60):
            pass

    async def all_of_them() -> None:
        waiting = [asyncio.ensure_future(one()) for _ in range(45)]
        await asyncio.sleep(0)
        try:
            assert await asyncio.wait_for(to_thread.run_sync(lambda: 7), 30) == 7
        finally:
            watch.answers.set()
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(all_of_them())
