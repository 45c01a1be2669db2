"""Idempotency keys for ASGI 3 applications (Starlette, FastAPI, ...): one transaction around a request and its answer.

The middleware opens the transaction, claims the key in it, lends it to the endpoint, holds the response until it
is complete, stores it, commits, and only then sends it. So a response that a client has seen is committed, and a client
without a response may send the request again: the same key gives the stored response, or carries the command out if
nothing was committed.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from hashlib import sha256
from typing import Any

from walrelay.connections import sqlstate
from walrelay.inbox.buffering import Buffered, Exchange, Message, Receive, Send, TooLarge, read, replayed_body
from walrelay.inbox.dependencies import refuse_late_ends
from walrelay.inbox.keys import Command, IdempotencyConflict, IdempotencyKeys
from walrelay.inbox.problems import problem, send_response

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_NOBODY = problem(
    401,
    "The client that sent this Idempotency-Key is unknown",
    "Send the request with your credentials: a stored answer is given only to the client that sent the first request.",
)
_KEY_LENGTH = 255  # characters; a common limit, and far below that of an index
_AROUND = "walrelay.inbox"  # in the scope of a request that an IdempotencyMiddleware handles
_TRIES = 5

_exchange: ContextVar[Exchange | None] = ContextVar("walrelay.inbox.asgi", default=None)


def transaction() -> Any:
    """What the middleware's `transaction` gave for this request: the connection or session to work with.

    Takes nothing, so that it is a dependency of FastAPI as it is: `Depends(transaction)`. RuntimeError outside of a
    request that the middleware applies to, and in what runs after the response (background tasks): it is committed.
    """
    exchange = _exchange.get()
    if exchange is None:
        raise RuntimeError(
            "there is no transaction: this is not inside IdempotencyMiddleware, or it does not apply to this request"
        )
    return exchange.connection


def unsafe(scope: Scope) -> bool:
    """Whether the method may change something."""
    return scope["method"] not in _SAFE


def succeeded(status: int) -> bool:
    """2xx and 3xx."""
    return status < 400


def by_authorization(scope: Scope) -> str | None:
    """The digest of the `Authorization` header identifies the client; None without one. For tokens that change often,
    and for cookies, use the user behind them.
    """
    given = _values(scope, b"authorization")
    return sha256(given[0]).hexdigest() if len(given) == 1 and given[0].strip() else None


class IdempotencyMiddleware:
    """Handles the requests that `applies` selects; all others, websockets and lifespan pass untouched. So does a
    request that an outer IdempotencyMiddleware handles already, around a mounted application.

    transaction: makes an async context manager that gives an async connection or session and commits at its end, or
    rolls back where an exception ends it: `engine.begin`, `async_sessionmaker(engine).begin`, or one of yours. client:
    who asks, as text. **Keys of two clients never meet.** A stored response is given out before the application sees
    the request, so this must rest on what was verified: `by_authorization`, or the user of a middleware further out.
    Where it is None or empty, a request with a key is answered 401 and goes no further: clients without an identity
    would all be one. required: without a key the answer is 400; otherwise such a request has its transaction as well,
    but no memory. stores: by its status, whether a response is stored and its transaction committed. Otherwise it is
    rolled back, and the next try carries the command out again. A 5xx is never stored. conflict_status: for a key that
    came with another request. max_request_bytes, max_response_bytes: a longer request is answered 413; a longer
    response is an error, and rolled back: it has to fit into memory and the table.
    """

    def __init__(
        self,
        app: App,
        *,
        keys: IdempotencyKeys,
        transaction: Callable[[], AbstractAsyncContextManager[Any]],
        client: Callable[[Scope], str | None],
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
        if scope.get(_AROUND):
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http" or not self._applies(scope):
            token = _exchange.set(None)  # an application that an endpoint calls is not in the endpoint's transaction
            try:
                await self._app(scope, receive, send)
            finally:
                _exchange.reset(token)
            return
        given = _values(scope, b"idempotency-key")
        if not given and not self._required:
            await self._carried_out(scope, receive, send, None, "", "")
        elif len(given) != 1 or not 0 < len(given[0]) <= _KEY_LENGTH:
            detail = f"Send one header Idempotency-Key, of 1 to {_KEY_LENGTH} characters, a new one for each command."
            await send_response(send, problem(400, "Idempotency-Key is missing or invalid", detail))
        else:
            await self._with_key(scope, receive, send, given[0].decode("latin-1"), self._client(scope))

    async def _with_key(self, scope: Scope, receive: Receive, send: Send, key: str, client: str | None) -> None:
        if not client:
            await send_response(send, _NOBODY)
            return
        try:
            body = await read(receive, self._max_request_bytes)
        except TooLarge:
            detail = f"A request with an idempotency key may have at most {self._max_request_bytes} bytes."
            await send_response(send, problem(413, "Content too large", detail))
            return
        if body is None:  # the client is gone before anything began
            return
        await self._carried_out(scope, replayed_body(body, receive), send, key, _request(scope, body), client)

    async def _carried_out(
        self, scope: Scope, receive: Receive, send: Send, key: str | None, request: str, client: str
    ) -> None:
        async with AsyncExitStack() as opened:
            try:
                connection, command = await self._begun(opened, key, request, client)
            except IdempotencyConflict as conflict:
                answer = problem(self._conflict_status, "Idempotency-Key was used before", str(conflict))
                await send_response(send, answer)
                return
            if command is None or command.response is None:
                exchange = Exchange(opened, connection, command, self._keeps)
                await self._run(scope, receive, Buffered(exchange, send, self._max_response_bytes))
                return
        status, headers, body = command.response
        await send_response(send, (status, (*headers, ("idempotency-replayed", "true")), body))

    async def _begun(
        self, opened: AsyncExitStack, key: str | None, request: str, client: str
    ) -> tuple[Any, Command | None]:
        """Opens the transaction and claims the key in it; `opened` ends both. Begins again after a serialization
        failure: under REPEATABLE READ and SERIALIZABLE its snapshot does not see who had the key meanwhile.
        """
        for tries_left in reversed(range(_TRIES)):
            command = None
            try:
                async with AsyncExitStack() as attempt:
                    connection = await attempt.enter_async_context(self._transaction())
                    if key is not None:
                        claim = self._keys.claim(connection, key=key, request=request, scope=client)
                        command = await attempt.enter_async_context(claim)
                    opened.push_async_exit(attempt.pop_all())
                    return connection, command
            except Exception as error:
                if not tries_left or sqlstate(error) != "40001":
                    raise
        raise AssertionError("the last try returns or raises")

    async def _run(self, scope: Scope, receive: Receive, response: Buffered) -> None:
        """Changes the scope for the application and restores it; keeps what the application adds to it: outer
        middlewares look there for the route.
        """
        token = _exchange.set(response.exchange)
        before = {name: scope[name] for name in ("headers", "extensions") if name in scope}
        # The stored response must suit every client: compression has to be further out.
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name.lower() != b"accept-encoding"]
        scope["extensions"] = {}  # a server that sends files by itself would send what cannot be stored
        scope[_AROUND] = True
        response.exchange.at_end(lambda: refuse_late_ends(scope, transaction))
        try:
            await self._app(scope, receive, response.send)
        finally:
            _exchange.reset(token)
            for name in ("headers", "extensions", _AROUND):
                scope.pop(name, None)
            scope.update(before)
        if response.exchange.is_open:
            raise RuntimeError("the application ended without a complete response; its transaction is rolled back")

    def _keeps(self, status: int) -> bool:
        return status < 500 and self._stores(status)


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for header, value in scope["headers"] if header.lower() == name]


def _request(scope: Scope, body: bytes) -> str:
    """What two requests with one key must have in common. Headers may differ in a retry."""
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
