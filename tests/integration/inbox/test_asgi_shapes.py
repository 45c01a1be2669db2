"""The idempotency middleware beside the same application without it, in whatever shape requests and answers come."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from starlette.middleware.gzip import GZipMiddleware

from tests.integration.inbox.conftest import WaitForLock
from tests.integration.inbox.kept import handled, keys
from tests.integration.inbox.shop import somebody
from tests.integration.inbox.test_asgi_protocol import GONE, KEY, REST, around, spoken
from tests.integration.libraries import async_engine
from tests.servers.database import Database
from walrelay.inbox import IdempotencyKeys
from walrelay.inbox.asgi import IdempotencyMiddleware, transaction

SENT = b"what is sent " * 20_000  # in several parts
ONE = text("INSERT INTO handled VALUES ('one')")


def answers(make: Callable[[], Any], *requests: tuple[str, str, dict[str, str]]) -> list[httpx.Response]:
    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(make(), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            return [
                await client.request(
                    method,
                    path,
                    headers={"idempotency-key": "k", **headers},
                    content=SENT if method == "POST" else None,
                )
                for method, path, headers in requests
            ]

    return asyncio.run(asyncio.wait_for(ask(), 30))


def idempotent(app: Any, database: Database, **options: Any) -> Any:
    settings = {"keys": IdempotencyKeys(), "transaction": async_engine(database.dsn).begin, **options}
    return IdempotencyMiddleware(app, client=somebody, **settings)


def shop(database: Database) -> FastAPI:
    """Its dependency takes the middleware's transaction, or has its own if there is no middleware."""
    app = FastAPI()

    async def connection(request: Request) -> AsyncIterator[AsyncConnection]:
        if request.scope.get("walrelay.inbox"):
            yield transaction()
            return
        async with async_engine(database.dsn).begin() as own:
            yield own

    async def session(
        connection: AsyncConnection = Depends(connection, scope="function"),  # noqa: B008
    ) -> AsyncIterator[AsyncSession]:
        async with AsyncSession(bind=connection) as made:
            yield made
            await made.execute(text("INSERT INTO handled VALUES ('at the end')"))
            await made.commit()

    lent = Depends(connection, scope="function")

    @app.api_route("/plain", methods=["POST", "HEAD", "GET", "PATCH", "DELETE"])
    async def plain(connection: Any = lent) -> JSONResponse:
        await connection.execute(ONE)
        return JSONResponse({"done": True}, 201, headers={"set-cookie": "a=b", "x-twice": "1, 2"})

    @app.post("/empty", status_code=204)
    async def empty(connection: Any = lent) -> None:
        await connection.execute(ONE)

    @app.post("/stream")
    async def stream(connection: Any = lent) -> StreamingResponse:
        await connection.execute(ONE)
        return StreamingResponse(iter([b"one ", b"", b"two"]), media_type="text/plain")

    @app.post("/session")
    async def with_session(session: AsyncSession = Depends(session, scope="function")) -> str:  # noqa: B008
        await session.execute(ONE)
        return "done"

    @app.post("/background")
    async def background(tasks: BackgroundTasks, connection: Any = lent) -> str:
        await connection.execute(ONE)
        tasks.add_task(after, database)
        return "done"

    @app.post("/background-fails")
    async def background_fails(tasks: BackgroundTasks, connection: Any = lent) -> str:
        await connection.execute(ONE)
        tasks.add_task(fails)
        return "done"

    @app.post("/echo")
    async def echo(request: Request, connection: Any = lent) -> Response:
        await connection.execute(ONE)
        return Response(b"".join([part async for part in request.stream()])[::-1])

    @app.post("/refused")
    async def refused() -> None:
        raise ValueError

    return app


async def after(database: Database) -> None:
    async with async_engine(database.dsn).begin() as connection:
        await connection.execute(text("INSERT INTO handled SELECT 'task saw ' || count(*) FROM handled"))


async def fails() -> None:
    raise ZeroDivisionError


OTHERS = ["/empty", "/stream", "/session", "/background", "/background-fails", "/echo", "/refused", "/nowhere"]
SHAPES = [
    *[(method, "/plain") for method in ("POST", "PATCH", "DELETE", "GET", "HEAD")],
    *[("POST", path) for path in OTHERS],
]


@pytest.mark.parametrize("around_it", ["once", "twice", "mounted", "around the mount only"])
@pytest.mark.parametrize(("method", "path"), SHAPES)
def test_it_answers_as_the_application_does_without_it(
    method: str, path: str, around_it: str, consumers: Database
) -> None:
    def without() -> Any:
        return shop(consumers)

    def under() -> Any:
        app = shop(consumers)
        if around_it == "once":
            return idempotent(app, consumers)
        if around_it == "twice":
            return idempotent(idempotent(app, consumers), consumers)
        outer = FastAPI()
        outer.mount("/", idempotent(app, consumers))
        return idempotent(outer, consumers) if around_it == "mounted" else outer

    (alone,) = answers(without, (method, path, {}))
    rows = handled(consumers)
    consumers.execute("TRUNCATE handled")
    first, again = answers(under, (method, path, {}), (method, path, {}))
    stored = method in ("POST", "PATCH", "DELETE") and alone.status_code < 400
    for response in (first, again):
        assert (response.status_code, response.content) == (alone.status_code, alone.content)
    assert first.headers.multi_items() == alone.headers.multi_items()
    assert again.headers.get("idempotency-replayed") == ("true" if stored else None)
    assert handled(consumers) == (rows if stored else rows * 2)
    assert keys(consumers) == int(stored)


@pytest.mark.parametrize(
    ("end", "error", "said"),
    [("the client leaves", RuntimeError, "without a complete response"), ("it breaks off", ZeroDivisionError, "^$")],
    ids=["left", "broken off"],
)
def test_a_stream_that_does_not_come_to_its_end_is_rolled_back_and_carried_out_by_the_next_try(
    end: str, error: type[Exception], said: str, consumers: Database
) -> None:
    async def asked(end: str, sent: list[Any]) -> None:
        begun, never = asyncio.Event(), asyncio.Event()

        async def parts() -> AsyncIterator[bytes]:
            await transaction().execute(ONE)
            yield b"one "
            begun.set()
            if end == "the client leaves":
                await never.wait()
            elif end == "it breaks off":
                raise ZeroDivisionError
            yield b"two"

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await StreamingResponse(parts())(scope, receive, send)

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await (begun if end == "the client leaves" else never).wait()
            return GONE

        async def send(message: Any) -> None:
            sent.append(message)

        messages = [REST]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": KEY}
        await around(app, consumers)(scope, receive, send)

    sent: list[Any] = []
    with pytest.raises(error, match=said):
        asyncio.run(asyncio.wait_for(asked(end, sent), 30))
    assert (sent, handled(consumers), keys(consumers)) == ([], [], 0)
    asyncio.run(asyncio.wait_for(asked("", sent), 30))
    assert (sent[1]["body"], handled(consumers), keys(consumers)) == (b"one two", ["one"], 1)


def test_a_dependency_that_fastapi_ends_after_the_commit_is_refused(consumers: Database) -> None:
    app = FastAPI()

    async def connection(lent: AsyncConnection = Depends(transaction)) -> AsyncConnection:  # noqa: B008
        return lent

    async def session(connection: AsyncConnection = Depends(connection)) -> AsyncIterator[AsyncSession]:  # noqa: B008
        async with AsyncSession(bind=connection) as made:
            yield made
            await made.execute(ONE)
            await made.commit()

    @app.post("/late")
    async def late(session: AsyncSession = Depends(session)) -> str:  # noqa: B008
        return "done"

    @app.post("/in-time")
    async def in_time(session: AsyncSession = Depends(session, scope="function")) -> str:  # noqa: B008
        return "done"

    late_, in_time_ = answers(
        lambda: idempotent(app, consumers), ("POST", "/late", {}), ("POST", "/in-time", {"idempotency-key": "other"})
    )
    assert (late_.status_code, in_time_.status_code) == (500, 200)
    assert (handled(consumers), keys(consumers)) == (["one"], 1)
    with pytest.raises(RuntimeError, match=r'has the request\'s transaction.* Depends\(session, scope="function"\)'):
        spoken(idempotent(app, consumers), REST, headers=KEY, path="/late", query_string=b"", root_path="")


def test_fastapi_itself_refuses_it_where_the_transaction_is_of_a_function_s_scope() -> None:
    async def session(
        connection: AsyncConnection = Depends(transaction, scope="function"),  # noqa: B008
    ) -> AsyncIterator[AsyncConnection]:
        yield connection

    async def endpoint(session: AsyncConnection = Depends(session)) -> None:  # noqa: B008
        raise AssertionError

    with pytest.raises(Exception, match='it cannot depend on dependencies with scope "function"'):
        FastAPI().post("/")(endpoint)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_whatever_the_isolation_level_the_same_key_at_the_same_time_waits_and_gets_the_response(
    level: str, consumers: Database, waits_for_a_lock: WaitForLock
) -> None:
    engine = async_engine(consumers.dsn, isolation_level=level)
    app = idempotent(shop(consumers), consumers, transaction=engine.begin)

    async def ask_four_times() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop", timeout=30) as client:
            with consumers.connect() as blocking, blocking.transaction():
                blocking.execute("LOCK TABLE handled")
                asked = [asyncio.create_task(client.post("/plain", headers={"idempotency-key": "k"})) for _ in range(4)]
                await asyncio.to_thread(waits_for_a_lock, count=3)
            return [(await each).status_code for each in asked]

    assert asyncio.run(ask_four_times()) == [201] * 4
    assert handled(consumers) == ["one"]


def test_the_scope_is_the_one_that_middlewares_further_out_see(consumers: Database) -> None:
    app, seen = shop(consumers), []

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        await idempotent(app, consumers)(scope, receive, send)
        seen.append((scope["route"].path, dict(scope["headers"])[b"accept-encoding"], "walrelay.inbox" in scope))

    answers(lambda: outer, ("POST", "/plain", {"accept-encoding": "gzip"}))
    assert seen == [("/plain", b"gzip", False)]


def test_an_application_that_an_endpoint_calls_is_not_in_its_transaction(consumers: Database) -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        with pytest.raises(RuntimeError, match="there is no transaction"):
            transaction()
        await JSONResponse("asked")(scope, receive, send)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        transport = httpx.ASGITransport(idempotent(inner, consumers))
        async with httpx.AsyncClient(transport=transport, base_url="http://inner") as client:
            asked = (await client.get("/")).json()
        assert transaction() is not None
        await JSONResponse(asked)(scope, receive, send)

    (response,) = answers(lambda: idempotent(app, consumers), ("POST", "/", {}))
    assert response.json() == "asked"


def test_headers_may_be_any_iterable(consumers: Database) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": iter([(b"x-a", b"1")])})
        await send({"type": "http.response.body", "body": b"done"})

    first = spoken(around(app, consumers), REST, headers=KEY)
    again = spoken(around(app, consumers), REST, headers=KEY)
    assert first[0]["headers"] == [(b"x-a", b"1")]
    assert again[0]["headers"] == [(b"x-a", b"1"), (b"idempotency-replayed", b"true")]


def test_what_is_stored_is_not_compressed_for_who_asked_first(consumers: Database) -> None:
    """Further out it is, for each."""

    def inside() -> Any:
        return idempotent(GZipMiddleware(shop(consumers), minimum_size=1), consumers)

    def outside() -> Any:
        return GZipMiddleware(idempotent(shop(consumers), consumers), minimum_size=1)

    for make, encoding in ((inside, None), (outside, "gzip")):
        consumers.execute("TRUNCATE idempotency_keys")
        requests = [("POST", "/plain", {"accept-encoding": each}) for each in ("gzip", "identity")]
        first, again = answers(make, *requests)
        assert (first.headers.get("content-encoding"), again.headers.get("content-encoding")) == (encoding, None)
        assert first.json() == again.json() == {"done": True}


def test_a_response_that_took_the_place_of_another_is_whole(consumers: Database) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x" * 2000})
        except RuntimeError:
            await JSONResponse("too much", 500)(scope, receive, send)

    (response,) = answers(lambda: idempotent(app, consumers, max_response_bytes=1000), ("POST", "/", {}))
    assert (response.status_code, response.json(), keys(consumers)) == (500, "too much", 0)
