"""Idempotency keys for ASGI 3 applications (Starlette, FastAPI, ...): one transaction around a request and its answer.

The middleware opens the transaction, claims the key in it, lends it to the endpoint, keeps back the response until it
is whole, stores it, commits, and only then lets the client see it. So whatever a client has seen is committed, and
whatever it has not seen may be sent again: the same key gives the stored response, or carries the command out if
nothing was committed.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from hashlib import sha256
from typing import Any

from walrelay.inbox.buffering import Buffered, Exchange, Message, Receive, Send, TooLarge, read, replayed_body
from walrelay.inbox.keys import Command, IdempotencyConflict, IdempotencyKeys
from walrelay.inbox.problems import problem, send_response

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_KEY_LENGTH = 255  # characters; what others allow, and far below what an index takes

_exchange: ContextVar[Exchange | None] = ContextVar("walrelay.inbox.asgi", default=None)


def transaction() -> Any:
    """What the middleware's `transaction` gave for this request: the connection or session to work with.

    Takes nothing, so that it is a dependency of FastAPI as it is: `Depends(transaction)`. RuntimeError outside of a
    request that the middleware applies to, and in what runs after the response (background tasks): it is committed.
    """
    exchange = _exchange.get()
    if exchange is None:
        raise RuntimeError("there is no transaction: IdempotencyMiddleware is not around this, or passed it over")
    return exchange.connection


def unsafe(scope: Scope) -> bool:
    """Whether the method may change something."""
    return scope["method"] not in _SAFE


def succeeded(status: int) -> bool:
    """2xx and 3xx."""
    return status < 400


def by_authorization(scope: Scope) -> str:
    """A client is whoever has this `Authorization` header. (With tokens that change often use the user behind them.)"""
    return sha256(b"\n".join(_values(scope, b"authorization"))).hexdigest()


class IdempotencyMiddleware:
    """For requests that `applies` says; all others, websockets and lifespan pass untouched.

    transaction: makes an async context manager that gives an async connection or session and commits at its end, or
        rolls back where an exception ends it: `engine.begin`, `async_sessionmaker(engine).begin`, or one of yours.
    client: who asks, as text. **Keys of two clients never meet.** A stored response is given out before the
        application sees the request, so this must rest on what was verified: `by_authorization`, or the user of a
        middleware further out.
    required: without a key the answer is 400; otherwise such a request has its transaction as well, but no memory.
    stores: by its status, whether a response is stored and its transaction committed. What is not, is rolled back, so
        that the next try carries the command out anew. A 5xx never is.
    conflict_status: for a key that came with another request.
    max_request_bytes, max_response_bytes: a longer request is answered 413; a longer response is an error, and
        rolled back, because it has to be in memory and in the table.
    """

    def __init__(
        self,
        app: App,
        *,
        keys: IdempotencyKeys,
        transaction: Callable[[], AbstractAsyncContextManager[Any]],
        client: Callable[[Scope], str],
        required: bool = True,
        applies: Callable[[Scope], bool] = unsafe,
        stores: Callable[[int], bool] = succeeded,
        conflict_status: int = 422,
        max_request_bytes: int = 2**20,
        max_response_bytes: int = 2**20,
    ) -> None:
        self._app, self._keys, self._transaction, self._client = app, keys, transaction, client
        self._required, self._applies, self._stores = required, applies, stores
        self._conflict_status = conflict_status
        self._max_request_bytes, self._max_response_bytes = max_request_bytes, max_response_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._applies(scope):
            await self._app(scope, receive, send)
            return
        given = _values(scope, b"idempotency-key")
        if not given and not self._required:
            await self._carried_out(scope, receive, send, None, "")
        elif len(given) != 1 or not 0 < len(given[0]) <= _KEY_LENGTH:
            detail = f"Send one header Idempotency-Key, of 1 to {_KEY_LENGTH} characters, made anew for each command."
            await send_response(send, problem(400, "Idempotency-Key is missing or is none", detail))
        else:
            await self._with_key(scope, receive, send, given[0].decode("latin-1"))

    async def _with_key(self, scope: Scope, receive: Receive, send: Send, key: str) -> None:
        try:
            body = await read(receive, self._max_request_bytes)
        except TooLarge:
            detail = f"A request with an idempotency key has at most {self._max_request_bytes} bytes here."
            await send_response(send, problem(413, "Content too large", detail))
            return
        if body is None:  # the client is gone; nothing has begun
            return
        await self._carried_out(scope, replayed_body(body, receive), send, key, _request(scope, body))

    async def _carried_out(self, scope: Scope, receive: Receive, send: Send, key: str | None, request: str) -> None:
        async with AsyncExitStack() as opened:
            connection = await opened.enter_async_context(self._transaction())
            command: Command | None = None
            if key is not None:
                claim = self._keys.claim(connection, key=key, request=request, scope=self._client(scope))
                try:
                    command = await opened.enter_async_context(claim)
                except IdempotencyConflict as conflict:
                    await opened.pop_all().__aexit__(type(conflict), conflict, None)
                    answer = problem(self._conflict_status, "Idempotency-Key was used before", str(conflict))
                    await send_response(send, answer)
                    return
            if command is None or command.response is None:
                exchange = Exchange(opened, connection, command, self._keeps)
                await self._run(scope, receive, Buffered(exchange, send, self._max_response_bytes))
                return
        status, headers, body = command.response
        await send_response(send, (status, (*headers, ("idempotency-replayed", "true")), body))

    async def _run(self, scope: Scope, receive: Receive, response: Buffered) -> None:
        token = _exchange.set(response.exchange)
        try:
            # Without extensions: a server that sends files by itself would send what nobody can store.
            await self._app({**scope, "extensions": {}}, receive, response.send)
        finally:
            _exchange.reset(token)
        if response.exchange.is_open:
            raise RuntimeError("the application ended without a whole response; its transaction is rolled back")

    def _keeps(self, status: int) -> bool:
        return status < 500 and self._stores(status)


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for header, value in scope["headers"] if header.lower() == name]


def _request(scope: Scope, body: bytes) -> str:
    """What makes it the same request: the headers do not, a client's retry may differ in them."""
    where = [scope["method"], scope["path"], scope.get("query_string", b"").decode("latin-1")]
    return "\n".join([*where, sha256(body).hexdigest()])


__all__ = [
    "App",
    "IdempotencyMiddleware",
    "Message",
    "Receive",
    "Scope",
    "Send",
    "by_authorization",
    "succeeded",
    "transaction",
    "unsafe",
]
