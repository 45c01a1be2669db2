"""The examples in docs/inbox.md run, in their order, and do what is said there."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.integration.inbox.test_identify import HEADERS, kafka_messages
from tests.integration.libraries import async_engine
from tests.servers.database import Database
from tests.servers.topics import Kafka

PAGE = Path(__file__).parents[3] / "docs" / "inbox.md"


def test_the_examples_do_what_is_said(consumers: Database, kafka: Kafka, topic: str) -> None:
    consumers.execute("CREATE TABLE invoices (what text)")
    consumers.execute("CREATE TABLE orders (what text)")
    (message,) = kafka_messages(kafka, topic, list(HEADERS.items()))
    names: dict[str, Any] = {"dsn": consumers.dsn, "make_engine": lambda: async_engine(consumers.dsn)}
    handling, handling_async, forgetting, marking, commands, web = re.findall(
        r"```python\n(.*?)```", PAGE.read_text(), re.S
    )

    run(handling, names)
    with consumers.connect() as connection:
        for _ in range(2):
            names["handle"](message, connection)
    run(handling_async, names)
    asyncio.run(twice(consumers, names["handle_async"], message))
    assert consumers.execute("SELECT what FROM invoices") == [("{}",), ("{}",)]

    run(forgetting, names)
    run(marking, names)
    with consumers.connect() as connection:
        names["handle"](message, connection)  # it has a row by its id
    assert consumers.execute("SELECT count(*) FROM invoices") == [(2,)]

    run(commands, names)
    with consumers.connect() as connection:
        answers = [names["place_order"](connection, "alice", "k1", {"what": "apple"}) for _ in range(2)]
    assert answers[0] == answers[1] == (201, (("content-type", "text/plain"),), b"ordered")
    assert consumers.execute("SELECT what FROM orders") == [("apple",)]

    run(web.replace('create_async_engine("postgresql+asyncpg://...")', "make_engine()"), names)
    assert asyncio.run(ordered_twice(names["app"])) == [(201, "ordered"), (201, "ordered")]
    assert consumers.execute("SELECT what FROM orders") == [("apple",), ("pear",)]


def run(code: str, names: dict[str, Any]) -> None:
    exec(compile(code, str(PAGE), "exec"), names)


async def ordered_twice(app: Any) -> list[tuple[int, str]]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
        headers = {"idempotency-key": "k1", "authorization": "Bearer alice"}
        responses = [await client.post("/orders?what=pear", headers=headers) for _ in range(2)]
    return [(response.status_code, response.json()) for response in responses]


async def twice(database: Database, handle: Callable[[Any, Any], Any], message: Any) -> None:
    connection = await psycopg.AsyncConnection.connect(database.dsn, autocommit=True)
    async with connection:
        for _ in range(2):
            await handle(message, connection)
