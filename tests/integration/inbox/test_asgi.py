"""The middleware around a FastAPI application, on real PostgreSQL."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from tests.integration.inbox import shop as shop_module
from tests.integration.inbox.kept import handled, keys
from tests.integration.inbox.shop import shop
from tests.integration.libraries import async_engine
from tests.servers.database import Database
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, temporary_directory
from tests.servers.waiting import wait_until

ROOT = Path(__file__).parents[3]

Work = Callable[[httpx.AsyncClient], Awaitable[Any]]


def talk(database: Database, work: Work, **options: Any) -> Any:
    """What `work` comes to, with a client of the application."""

    async def run() -> Any:
        engine = async_engine(database.dsn)
        transport = httpx.ASGITransport(shop(engine, **options), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            return await asyncio.wait_for(work(client), 30)

    return asyncio.run(run())


async def order(client: httpx.AsyncClient, what: str, key: str = "k1", token: str = "alice") -> httpx.Response:
    headers = {"idempotency-key": key, "authorization": f"Bearer {token}"}
    return await client.post("/orders?from=test", json={"what": what}, headers=headers)


def test_the_same_request_gets_the_stored_response(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> list[httpx.Response]:
        return [await order(client, "apple") for _ in range(3)]

    first, second, third = talk(consumers, work)
    assert (first.status_code, first.json(), first.headers["location"]) == (
        201,
        {"what": "apple", "orders": 1},
        "/orders/1",
    )
    assert "idempotency-replayed" not in first.headers
    for again in (second, third):
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert dict(again.headers) == {**first.headers, "idempotency-replayed": "true"}
    assert handled(consumers) == ["apple"]


def test_of_requests_at_the_same_time_one_is_carried_out_and_all_get_its_response(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> list[httpx.Response]:
        return await asyncio.gather(*[order(client, "apple", key=f"k{n % 3}") for n in range(12)])

    responses = talk(consumers, work)
    assert {response.status_code for response in responses} == {201}
    assert handled(consumers) == ["apple"] * 3
    for n in range(3):
        assert len({response.content for response in responses[n::3]}) == 1
        assert sum("idempotency-replayed" in response.headers for response in responses[n::3]) == 3


def test_another_request_with_the_key_is_a_conflict(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> tuple[httpx.Response, ...]:
        await order(client, "apple")
        other_method = await client.put("/orders?from=test", headers={"idempotency-key": "k1"})
        return await order(client, "pear"), await order(client, "pear", token="bob"), other_method

    conflict, of_bob, _ = talk(consumers, work)
    assert conflict.status_code == 422
    assert conflict.headers["content-type"] == "application/problem+json"
    assert "'k1' was used for another request" in conflict.json()["detail"]
    assert (of_bob.status_code, of_bob.json()["what"]) == (201, "pear")
    assert handled(consumers) == ["apple", "pear"]

    async def again(client: httpx.AsyncClient) -> httpx.Response:
        return await order(client, "banana")

    assert talk(consumers, again, conflict_status=409).status_code == 409


def test_path_query_method_and_body_make_the_request(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> list[int]:
        headers = {"idempotency-key": "k1"}
        body = {"what": "apple"}
        requests = [
            client.post("/orders", json=body, headers=headers),
            client.post("/orders", json=body, headers={**headers, "user-agent": "retry"}),
            client.post("/orders?x=1", json=body, headers=headers),
            client.post("/background", json=body, headers=headers),
            client.put("/orders", json=body, headers=headers),
            client.post("/orders", json={"what": "pear"}, headers=headers),
        ]
        return [(await request).status_code for request in requests]

    assert talk(consumers, work) == [201, 201, 422, 422, 422, 422]


@pytest.mark.parametrize(("what", "status"), [("nothing", 409), ("broken", 503), ("bug", 500), ("much", 500)])
def test_what_failed_is_rolled_back_and_carried_out_anew(consumers: Database, what: str, status: int) -> None:
    async def work(client: httpx.AsyncClient) -> list[int]:
        return [(await order(client, what)).status_code for _ in range(2)]

    assert talk(consumers, work, max_response_bytes=1000) == [status, status]
    assert handled(consumers) == []
    assert keys(consumers) == 0


def test_a_refusal_may_be_stored_and_committed_but_never_a_5xx(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> list[httpx.Response]:
        refusals = [await order(client, "nothing") for _ in range(2)]
        return [*refusals, await order(client, "broken", key="k2")]

    first, second, broken = talk(consumers, work, stores=lambda status: True)
    assert (first.status_code, second.status_code) == (409, 409)
    assert second.headers["idempotency-replayed"] == "true"
    assert broken.status_code == 503
    assert handled(consumers) == ["nothing"]


def test_a_key_is_asked_for(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> list[int]:
        tries = [[], [("idempotency-key", "")], [("idempotency-key", "x" * 256)], [("idempotency-key", "a")] * 2]
        return [(await client.post("/orders", json={"what": "a"}, headers=each)).status_code for each in tries]

    assert talk(consumers, work) == [400] * 4
    assert handled(consumers) == []


def test_without_a_key_the_request_has_its_transaction_all_the_same(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> list[int]:
        return [(await client.post("/orders", json={"what": what})).status_code for what in ("a", "a", "nothing")]

    assert talk(consumers, work, required=False) == [201, 201, 409]
    assert handled(consumers) == ["a", "a"]
    assert keys(consumers) == 0


def test_a_request_that_is_too_long_is_refused(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> int:
        return (await order(client, "x" * 200)).status_code

    assert talk(consumers, work, max_request_bytes=100) == 413
    assert handled(consumers) == []


def test_safe_methods_pass_untouched(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> httpx.Response:
        return await client.get("/orders", headers={"idempotency-key": "k1"})

    assert "there is no transaction" in talk(consumers, work).json()
    assert keys(consumers) == 0


def test_a_background_task_runs_after_the_commit(consumers: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DSN", consumers.dsn)
    shop_module.SEEN.clear()

    async def work(client: httpx.AsyncClient) -> list[httpx.Response]:
        return [await client.post("/background", headers={"idempotency-key": "k1"}) for _ in range(2)]

    first, second = talk(consumers, work)
    assert (first.json(), second.json()) == ("done", "done")
    assert shop_module.SEEN == [1, "the transaction of this request is over: its response is complete"]


def test_a_response_in_parts_is_stored_whole(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> list[bytes]:
        return [(await client.post("/stream", headers={"idempotency-key": "k1"})).content for _ in range(2)]

    assert talk(consumers, work) == [b"one two three"] * 2
    assert handled(consumers) == ["streamed"]


def test_sessions_are_lent_as_well(consumers: Database) -> None:
    async def work(client: httpx.AsyncClient) -> list[int]:
        return [(await order(client, "apple")).status_code for _ in range(2)]

    factory: Any = async_sessionmaker(async_engine(consumers.dsn))
    assert talk(consumers, work, transaction=factory.begin) == [201, 201]
    assert handled(consumers) == ["apple"]
    assert AsyncSession in factory.class_.__mro__


@contextmanager
def served(database: Database) -> Iterator[tuple[ServerProcess, str]]:
    """The application in a process of its own, and its address."""
    home, port = temporary_directory("shop"), free_port()
    address = f"http://{LOOPBACK}:{port}"
    log = home / "log"
    process = ServerProcess(
        [sys.executable, "-m", "uvicorn", "--factory", "tests.integration.inbox.shop:made", "--port", str(port)],
        log=log,
        cwd=ROOT,
        last_signal=signal.SIGKILL,
        environment={**os.environ, "SHOP_DSN": database.dsn},
    )
    try:
        wait_until(
            lambda: httpx.get(f"{address}/orders").status_code == 200, 30, "the shop", ignoring=httpx.TransportError
        )
        yield process, address
    except BaseException as error:
        error.add_note(log.read_text()[-5000:])
        raise
    finally:
        if process.running:
            process.signal(signal.SIGKILL)
            process.wait(10)


def test_a_process_killed_in_its_transaction_leaves_nothing_and_the_retry_succeeds(
    consumers: Database, threads: ThreadPoolExecutor
) -> None:
    def place(address: str) -> httpx.Response:
        return httpx.post(f"{address}/orders", json={"what": "slow"}, headers={"idempotency-key": "k1"}, timeout=30)

    with consumers.connect(autocommit=False) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(1)")
        with served(consumers) as (process, address):
            lost = threads.submit(place, address)
            wait_until(lambda: waiting_for_advisory_locks(consumers), 10, "the order to be in its transaction")
            process.signal(signal.SIGKILL)
            process.wait(10)
            with pytest.raises(httpx.TransportError):
                lost.result(30)

    with served(consumers) as (_, address):
        first, second = place(address), place(address)
    assert (first.status_code, first.json()) == (201, {"what": "slow", "orders": 1})
    assert "idempotency-replayed" not in first.headers
    assert (second.json(), second.headers["idempotency-replayed"]) == (first.json(), "true")
    assert handled(consumers) == ["slow"]


def test_a_client_that_gave_up_gets_the_response_when_it_asks_again(consumers: Database) -> None:
    body, headers = json.dumps({"what": "slow"}), {"idempotency-key": "k1", "content-type": "application/json"}
    with served(consumers) as (_, address):
        with consumers.connect(autocommit=False) as holder:
            holder.execute("SELECT pg_advisory_xact_lock(1)")
            impatient = HTTPConnection(address.removeprefix("http://"))
            impatient.request("POST", "/orders", body, headers)
            wait_until(lambda: waiting_for_advisory_locks(consumers), 10, "the order to be in its transaction")
            impatient.close()
        again = httpx.post(f"{address}/orders", content=body, headers=headers, timeout=30)

    assert again.headers["idempotency-replayed"] == "true"
    assert handled(consumers) == ["slow"]


def waiting_for_advisory_locks(database: Database) -> bool:
    rows = database.execute(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"
    )
    return len(rows) == 1
