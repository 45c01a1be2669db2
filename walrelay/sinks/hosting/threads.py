"""Threads that are not the relay's, for its loop: calls of a client that blocks, and answers that a client tells."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


async def until_told(ask: Callable[[Callable[..., None]], object]) -> None:
    """`ask` is given what is to be called once, by whichever thread: that ends the wait, and wakes who waits for the
    loop's descriptor.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def hear() -> None:
        if not told.done():
            told.set_result(None)

    def tell(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(hear)

    ask(tell)
    await told


def in_time(seconds: float, work: Callable[[], T]) -> T:
    """What the call returned or raised, in a thread of its own; TimeoutError if that takes longer. The call may go on
    then, and no process waits for it at its end.
    """
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as why:
            errors.append(why)

    thread = Thread(target=run, name="walrelay-sink", daemon=True)
    thread.start()
    thread.join(seconds)
    for error in errors:
        raise error
    if not results:
        raise TimeoutError
    return results[0]


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    """What the call returned or raised, in a thread of its own, for which no process waits at its end. Who stops
    waiting has to see to it himself that the call ends.
    """
    results: list[T] = []
    errors: list[Exception] = []

    def run(tell: Callable[[], None]) -> None:
        try:
            results.append(work(*args))
        except Exception as why:
            errors.append(why)
        tell()

    await until_told(lambda tell: Thread(target=run, args=(tell,), name="walrelay-sink", daemon=True).start())
    for error in errors:
        raise error
    return results[0]
