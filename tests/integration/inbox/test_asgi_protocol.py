"""The idempotency middleware as a server and an application talk through it, message by message."""

import asyncio
from typing import Any

import pytest

from tests.integration.inbox.kept import keys
from tests.integration.libraries import async_engine
from tests.servers.database import Database
from walrelay.inbox import IdempotencyKeys
from walrelay.inbox.asgi import IdempotencyMiddleware, by_authorization, transaction

KEY = [(b"idempotency-key", b"k1"), (b"authorization", b"Bearer a")]
PART = {"type": "http.request", "body": b"half", "more_body": True}
REST = {"type": "http.request", "body": b" and half"}
GONE = {"type": "http.disconnect"}


def spoken(app: Any, *heard: dict[str, Any], into: list[Any] | None = None, **scope: Any) -> list[Any]:
    """What a bare application sends when the server says this; `into` has it also after an error."""
    sent: list[Any] = [] if into is None else into
    messages = list(heard)

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app({"type": "http", "method": "POST", "path": "/", "headers": [], **scope}, receive, send))
    return sent


def around(app: Any, database: Database) -> IdempotencyMiddleware:
    begin = async_engine(database.dsn).begin
    return IdempotencyMiddleware(app, keys=IdempotencyKeys(), transaction=begin, client=by_authorization)


def test_a_client_that_leaves_while_it_sends_has_sent_nothing(consumers: Database) -> None:
    async def app(*_: Any) -> None:
        raise AssertionError("the application must not see half a request")

    assert spoken(around(app, consumers), PART, GONE, headers=KEY) == []
    assert keys(consumers) == 0


def test_an_endpoint_sees_the_body_whole_and_then_that_the_client_left_and_what_it_answers_is_kept(
    consumers: Database,
) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend([scope["extensions"], await receive(), await receive()])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    spoken(around(app, consumers), PART, REST, GONE, headers=KEY, extensions={"http.response.pathsend": {}})
    assert seen == [{}, {"type": "http.request", "body": b"half and half", "more_body": False}, GONE]

    again = spoken(around(app, consumers), PART, REST, headers=KEY)
    assert again[0]["headers"] == [(b"idempotency-replayed", b"true")]
    assert again[1]["body"] == b"done"


def test_an_application_that_ends_without_a_whole_response_is_rolled_back(consumers: Database) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    with pytest.raises(RuntimeError, match="without a complete response"):
        spoken(around(app, consumers), REST, headers=KEY)
    assert keys(consumers) == 0


def test_a_commit_that_fails_lets_the_client_see_nothing(consumers: Database) -> None:
    consumers.execute("CREATE TABLE parent (id int PRIMARY KEY)")
    consumers.execute("CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await transaction().exec_driver_sql("INSERT INTO child VALUES (1)")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    with pytest.raises(Exception, match="foreign key"):
        spoken(around(app, consumers), REST, into=seen, headers=KEY)
    assert seen == []
    assert keys(consumers) == 0


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_websockets_and_lifespan_pass_untouched(consumers: Database, kind: str) -> None:
    seen: list[Any] = []

    async def app(*heard: Any) -> None:
        seen.extend(heard)

    async def unused(*_: Any) -> Any:
        raise AssertionError

    scope = {"type": kind}
    asyncio.run(around(app, consumers)(scope, unused, unused))
    assert seen == [scope, unused, unused]


@pytest.mark.parametrize(
    "credentials",
    [[], [(b"authorization", b" ")], [(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")]],
    ids=["none", "empty", "two"],
)
def test_whoever_is_nobody_gets_no_answer_of_another(
    consumers: Database, credentials: list[tuple[bytes, bytes]]
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        who = dict(scope["headers"])[b"cookie"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"set-cookie", b"token of " + who)]})
        await send({"type": "http.response.body", "body": b"the account of " + who})

    for who in (b"alice", b"bob"):
        headers = [(b"idempotency-key", b"1"), (b"cookie", who), *credentials]
        start, body = spoken(around(app, consumers), REST, headers=headers)
        assert start["status"] == 401
        assert b"account" not in body["body"]
    assert keys(consumers) == 0


EXTENSIONS: dict[str, Any] = {"http.response.trailers": {}, "http.response.pathsend": {}}
BY_THE_SERVER = [
    [
        {"type": "http.response.start", "status": 200, "headers": [], "trailers": True},
        {"type": "http.response.body", "body": b"done"},
        {"type": "http.response.trailers", "headers": [(b"x-sum", b"1")], "more_trailers": False},
    ],
    [
        {"type": "http.response.start", "status": 200, "headers": []},
        {"type": "http.response.pathsend", "path": "/etc/hostname"},
    ],
    [{"type": "http.response.body", "body": b"without a start"}],
]


@pytest.mark.parametrize("messages", BY_THE_SERVER, ids=["trailers", "pathsend", "body alone"])
def test_what_a_server_does_by_an_extension_passes_untouched_and_is_refused_where_it_would_be_stored(
    messages: list[Any], consumers: Database
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        offered.append(scope["extensions"])
        for message in messages:
            await send(message)

    offered: list[Any] = []
    sent: list[Any] = []
    assert spoken(around(app, consumers), REST, method="GET", headers=KEY, extensions=EXTENSIONS) == messages
    with pytest.raises(RuntimeError, match=r"a response with .* cannot be stored with its key"):
        spoken(around(app, consumers), REST, into=sent, headers=KEY, extensions=EXTENSIONS)
    assert (offered, sent, keys(consumers)) == ([EXTENSIONS, {}], [], 0)


def test_a_body_that_is_not_to_be_remembered_comes_in_parts_of_whatever_length(consumers: Database) -> None:
    parts: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request":
            parts.append(len(message["body"]))
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    long = {**PART, "body": b"x" * 2**20}
    begin = async_engine(consumers.dsn).begin
    app_ = IdempotencyMiddleware(
        app, keys=IdempotencyKeys(), transaction=begin, client=by_authorization, required=False
    )
    assert spoken(app_, long, long, REST)[0]["status"] == 200
    assert parts == [2**20, 2**20, len(REST["body"])]
    refused, _ = spoken(app_, long, long, REST, headers=KEY)
    assert (refused["status"], len(parts), keys(consumers)) == (413, 3, 0)
