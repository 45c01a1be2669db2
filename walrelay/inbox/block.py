"""A block of the application's statements, with statements of ours before and after it, on any connection."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import Any, Generic, TypeVar, cast

from walrelay.connections import Steps, SyncConnection, is_async, joined, run, run_async

T = TypeVar("T")


def _nothing(_: object) -> Steps[None]:
    yield from ()


class Block(Generic[T]):
    """`with` for a sync connection, `async with` for an async one. To be entered once.

    The block is in a savepoint: an exception that leaves it undoes all of it, also if the application catches the
    exception outside and commits.
    """

    def __init__(
        self,
        connection: object,
        what: str,
        begin: Callable[[], Steps[T]],
        end: Callable[[T], Steps[None]] = _nothing,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`begin` returns the value of the `as` clause; `end` follows the block if no exception left it. All of it is
        inside of `around`.
        """
        self._connection, self._what, self._begin, self._end, self._around = connection, what, begin, end, around
        self._sync: AbstractContextManager[T] | None = None
        self._async: AbstractAsyncContextManager[T] | None = None

    def __enter__(self) -> T:
        self._sync = self._in_savepoint()
        return self._sync.__enter__()

    def __exit__(self, *why: Any) -> None:
        assert self._sync is not None
        self._sync.__exit__(*why)

    async def __aenter__(self) -> T:
        self._async = self._in_async_savepoint()
        return await self._async.__aenter__()

    async def __aexit__(self, *why: Any) -> None:
        assert self._async is not None
        await self._async.__aexit__(*why)

    @contextmanager
    def _in_savepoint(self) -> Iterator[T]:
        connection = joined(self._connection)
        if is_async(connection):
            raise TypeError(f"the connection is async: write `async with` {self._what}")
        connection = cast(SyncConnection, connection)
        connection.require_transaction(self._what)
        with self._around(), connection.savepoint():
            value = run(connection, self._begin())
            yield value
            run(connection, self._end(value))

    @asynccontextmanager
    async def _in_async_savepoint(self) -> AsyncIterator[T]:
        connection = joined(self._connection)
        if not is_async(connection):
            raise TypeError(f"the connection is not async: write `with` {self._what}")
        await connection.require_transaction(self._what)
        with self._around():
            async with connection.savepoint():
                value = await run_async(connection, self._begin())
                yield value
                await run_async(connection, self._end(value))


def done(connection: object, steps: Steps[T]) -> Any:
    """Executes the steps; returns their result, to be awaited if the connection is async."""
    known = joined(connection)
    if is_async(known):
        return run_async(known, steps)
    return run(cast(SyncConnection, known), steps)
