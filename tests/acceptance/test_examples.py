"""docs/examples/shop, from the HTTP command to the projection, with what it says may be killed."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import psycopg
import pytest

from tests.acceptance.example_processes import SHOP, ExampleProcess, OrderService
from tests.acceptance.relay_process import WALRELAY
from tests.conftest import KafkaMaker, PostgresMaker
from tests.integration.libraries import url
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until

DEPLOY = SHOP.parents[2] / "deploy"
ORDERS = 40


class Shop(NamedTuple):
    server: PostgresServer
    broker: KafkaServer
    database: Database
    orders: OrderService
    relay: ExampleProcess
    billing: ExampleProcess

    @property
    def processes(self) -> list[ExampleProcess]:
        return [self.orders, self.relay, self.billing]

    @property
    def ends(self) -> list[Callable[[], None]]:
        """Each process, and each server, ended without notice and started again."""
        return [*(process.restart for process in self.processes), self._crash_postgres, self._kill_broker]

    def _crash_postgres(self) -> None:
        self.server.restart("immediate")

    def _kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()


@pytest.fixture
def shop(private_postgres: PostgresMaker, private_kafka: KafkaMaker, tmp_path: Path) -> Iterator[Shop]:
    """As the README has it: database and broker are there, then its commands, each as its role."""
    server, broker = private_postgres(), private_kafka(auto_create_topics=True)
    database = server.create_database("shop")
    broker.start()

    of = partial(_environment, database, broker)
    made = Shop(
        server,
        broker,
        database,
        OrderService(of("shop"), tmp_path),
        ExampleProcess([str(WALRELAY), "run"], of("relay"), tmp_path / "relay.log"),
        ExampleProcess([sys.executable, "billing.py"], of("billing"), tmp_path / "billing.log"),
    )
    database.execute((DEPLOY / "roles.sql").read_text())
    owners = of("outbox_owner")
    subprocess.run([WALRELAY, "init"], cwd=SHOP, env=owners, check=True, capture_output=True, timeout=60)
    printed = subprocess.run([sys.executable, "-m", "walrelay.inbox"], check=True, capture_output=True, text=True)
    scripts = [SHOP / "schema.sql", DEPLOY / "grants.sql", SHOP / "grants.sql"]
    schema, *grants = (script.read_text() for script in scripts)
    with psycopg.connect(owners["DATABASE_URL"], autocommit=True) as owner:
        for script in (schema, printed.stdout, *grants):
            owner.execute(script.encode())
    with ExitStack() as stack:
        for process in made.processes:
            stack.callback(process.kill)
            process.start()
        yield made


def _environment(database: Database, broker: KafkaServer, role: str) -> dict[str, str]:
    return {"DATABASE_URL": _url(database, role), "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}


def _url(database: Database, role: str) -> str:
    """As libpq and SQLAlchemy both read it."""
    found = url(database.dsn, "psycopg").set(drivername="postgresql", username=role, password=role)
    return found.render_as_string(hide_password=False)


def _until_answered(command: Callable[[], httpx.Response]) -> httpx.Response:
    """As a client does it: again, with the same key, until there is an answer."""

    def answered() -> httpx.Response | None:
        answer = command()
        return answer if answer.status_code < 500 else None

    answer = wait_until(answered, 60, "an answer of the order service", ignoring=httpx.HTTPError)
    assert answer is not None
    return answer


def _owes(shop: Shop) -> dict[str, str]:
    return {customer: str(owes) for customer, owes in shop.database.execute("SELECT customer, owes FROM accounts")}


def test_a_command_becomes_a_projection_once_whatever_is_killed_in_between(shop: Shop) -> None:
    def place(number: int) -> httpx.Response:
        return _until_answered(lambda: shop.orders.place(f"key-{number}", f"customer-{number % 4}", "12.50"))

    with ThreadPoolExecutor(4) as clients:
        answers = []
        for turn, end in enumerate(shop.ends):
            answers += [clients.submit(place, number) for number in range(8 * turn, 8 * turn + 8)]
            end()
        placed = [answer.result(60) for answer in answers]
    assert {answer.status_code for answer in placed} == {201}
    assert len({answer.json()["id"] for answer in placed}) == ORDERS
    repeated = place(0)
    assert (repeated.json(), repeated.headers["idempotency-replayed"]) == (placed[0].json(), "true")

    each = f"{ORDERS // 4 * 12.5:.2f}"
    expected = {f"customer-{number}": each for number in range(4)}
    wait_until(lambda: _owes(shop) == expected, 60, f"the projection, of {shop.billing.log()[-2000:]}")
    replay = [str(WALRELAY), "replay", "--aggregate", "order"]
    subprocess.run(
        replay,
        cwd=SHOP,
        env=_environment(shop.database, shop.broker, "oncall"),
        check=True,
        capture_output=True,
        timeout=60,
    )
    cancelled = _until_answered(lambda: shop.orders.cancel("cancel-0", "customer-0", placed[0].json()["id"]))
    assert cancelled.json()["state"] == "cancelled"
    expected["customer-0"] = f"{ORDERS // 4 * 12.5 - 12.5:.2f}"
    wait_until(lambda: _owes(shop) == expected, 60, "the cancelled order in the projection")

    counts = "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM invoices), (SELECT count(*) FROM inbox)"
    assert shop.database.execute(counts) == [(ORDERS, ORDERS, ORDERS + 1)]
    caused = "SELECT count(*) FROM outbox i JOIN outbox o ON i.headers->>'causation-id' = o.id::text WHERE i.type = %s"
    assert shop.database.execute(caused, ["InvoiceIssued"]) == [(ORDERS,)]


def test_a_command_that_cannot_be_carried_out_leaves_nothing(shop: Shop) -> None:
    assert shop.orders.place("key", "ann", "-1").status_code == 422
    assert shop.orders.cancel("key", "ann", "00000000-0000-0000-0000-000000000000").status_code == 404
    assert shop.database.execute("SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM idempotency_keys)") == [
        (0, 0)
    ]
    foreign = "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload) VALUES ('order', '42', 'Foreign', '{}')"
    shop.database.execute(foreign)  # an event that billing does not know is no reason for it to stop
    assert shop.orders.place("key", "ann", "12.50").status_code == 201
    wait_until(lambda: _owes(shop) == {"ann": "12.50"}, 60, "the projection")
    assert "Foreign version 1 is not a registered event" in shop.billing.log()
