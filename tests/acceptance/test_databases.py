"""A relay for each database that a query finds: they come and go while the process runs, and nothing is lost."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from psycopg.conninfo import make_conninfo

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.test_pause import await_state
from tests.acceptance.test_several_relays import assert_flows, lose_the_slot
from tests.acceptance.writing import Writers
from tests.conftest import ProxyMaker
from tests.servers.database import Database, Postgres
from tests.servers.ports import LOOPBACK
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.cli import main


class Tenants:
    """A table of databases, and the file with the query for them; the name of each is the database's own."""

    def __init__(self, directory: Path, catalog: Database, kafka: Kafka, deploy: Deploy) -> None:
        self.catalog, self._kafka, self._deploy = catalog, kafka, deploy
        self.config = directory / "databases.yaml"
        self.of: dict[str, Deployment] = {}
        self.instances: list[RelayProcess] = []
        catalog.execute("CREATE TABLE tenants (name text, dsn text)")
        query = {"dsn": catalog.dsn, "query": "SELECT name, dsn FROM public.tenants", "look_interval": 0.5}
        defaults: dict[str, Any] = {
            "route": {"topic": "{database}"},
            "sink": {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers},
            "retry": {"max_pause": 1},
            "log": {"format": "json"},
        }
        self.config.write_text(yaml.safe_dump({"databases": query, "defaults": defaults}))

    def add(self, *databases: Database) -> None:
        for each in databases:
            self.catalog.execute("INSERT INTO tenants VALUES (%s, %s)", [each.name, each.dsn])

    def remove(self, database: Database) -> None:
        self.catalog.execute("DELETE FROM tenants WHERE name = %s", [database.name])

    def init(self, *databases: Database) -> None:
        """What an operator does: `walrelay init` for all of the file, or for those that are named."""
        named = [word for each in databases for word in ("--relay", each.name)]
        main.main(["init", "-c", str(self.config), *named], standalone_mode=False)

    def adopt(self, *databases: Database) -> None:
        """From now on the test writes and reads as in any deployment: slot and topic are those of the file."""
        for each in databases:
            slots = each.server.slots(each.name)
            self.of[each.name] = self._deploy(each, self._kafka, each.name)
            assert each.server.slots(each.name) == slots == {self.of[each.name].slot_name}, "init had made it"

    def run(self) -> RelayProcess:
        instance = RelayProcess(self.config)
        next(iter(self.of.values())).relays.append(instance)  # which ends it with the test
        self.instances.append(instance)
        return instance

    def streams(self, instance: RelayProcess, *databases: Database, times: int = 1) -> None:
        for each in databases:
            instance.wait_for("streaming", containing=f'"relay": "{each.name}"', more_than=times - 1)

    def happened(self, instance: RelayProcess, event: str, database: Database) -> dict[str, Any]:
        return instance.wait_for(event, containing=f'"relay": "{database.name}"')


Made = Callable[[], Database]


@pytest.fixture
def made(postgres: Postgres, kafka: Kafka) -> Iterator[Made]:
    """Makes another database of the server, and a topic with its name."""
    databases: list[Database] = []

    def make() -> Database:
        databases.append(postgres.create_database())
        kafka.create_topic(databases[-1].name)
        return databases[-1]

    yield make
    for each in databases:
        each.drop()


@pytest.fixture
def tenants(tmp_path: Path, database: Database, kafka: Kafka, deploy: Deploy) -> Tenants:
    return Tenants(tmp_path, database, kafka, deploy)


def test_databases_come_and_go_and_nothing_is_lost(tenants: Tenants, made: Made) -> None:
    first, second, third, fourth = all_four = [made() for _ in range(4)]
    tenants.add(first, second, third)
    tenants.init()
    tenants.adopt(first, second, third)
    relay = tenants.run()
    tenants.streams(relay, first, second, third)
    writers = {each.name: Writers(each, seed=n, threads=1) for n, each in enumerate(all_four) if each is not fourth}
    for each in writers.values():
        each.start()
    try:
        tenants.add(fourth)
        tenants.happened(relay, "database found", fourth)
        refused = tenants.happened(relay, "not started", fourth)
        assert (refused["level"], "walrelay init" in refused["cause"]) == ("error", True), refused
        tenants.init(fourth)
        tenants.adopt(fourth)
        tenants.streams(relay, fourth)
        writers[fourth.name] = Writers(fourth, seed=9, threads=1)
        writers[fourth.name].start()
        for each in writers.values():
            each.wait_for_more(100)
        relay.kill()
        relay = tenants.run()
        tenants.streams(relay, *all_four)
        tenants.remove(second)
        tenants.happened(relay, "database gone", second)
        assert tenants.happened(relay, "stopped", second)["unsettled"] == 0
        for each in writers.values():
            each.wait_for_more(100)
        tenants.add(second)
        tenants.streams(relay, second, times=2)
    finally:
        for each in writers.values():
            each.stop()
    for deployment in tenants.of.values():
        deployment.catch_up()
    relay.stop()
    for name, deployment in tenants.of.items():
        assert_delivered(deployment, writers[name])
    assert len(relay.events("streaming")) == 5, "what was there went on"


def test_what_is_wrong_with_a_row_or_with_the_catalog_stops_no_relay(tenants: Tenants, made: Made) -> None:
    good = made()
    tenants.add(good)
    tenants.catalog.execute("INSERT INTO tenants VALUES ('a b', 'host=x'), ('empty', NULL), ('Bad', %s)", [good.dsn])
    tenants.init(good)
    tenants.adopt(good)
    relay = tenants.run()
    tenants.streams(relay, good)
    relay.wait_for("noticed", containing="the database 'a b' of the query is left out: its name is no name of a relay")
    relay.wait_for("noticed", containing="the database 'empty' is left out: its DSN is NULL, empty or no text")
    refused = relay.wait_for("not started", containing='"relay": "Bad"')
    assert "databases.Bad: 'walrelay_Bad' is no slot name" in refused["cause"]
    tenants.catalog.execute("ALTER TABLE tenants RENAME TO away")
    relay.wait_for("noticed", containing="new databases cannot be looked for, and all relays go on")
    assert_flows(tenants.of[good.name])
    tenants.catalog.execute("ALTER TABLE away RENAME TO tenants")
    tenants.catalog.execute("DELETE FROM tenants WHERE name = 'Bad'")
    relay.wait_for("database gone", containing="Bad")
    lose_the_slot(tenants.of[good.name])
    assert tenants.happened(relay, "fatal", good)["level"] == "error"
    await_state(tenants.of[good.name], "failed")
    relay.send(signal.SIGTERM)
    assert relay.wait() == 1, "something outside has to see that a relay had ended"
    assert len(relay.events("streaming")) == 1
    assert "password" not in str(relay.log)


def test_instances_share_the_databases_and_take_over_what_another_led(tenants: Tenants, made: Made) -> None:
    databases = [made() for _ in range(2)]
    tenants.add(*databases)
    tenants.init()
    tenants.adopt(*databases)
    one = tenants.run()
    tenants.streams(one, *databases)
    other = tenants.run()
    wait_until(lambda: other.events("streaming"), 60, "the other to lead its share")
    assert len(other.events("streaming")) == 1
    one.kill()
    tenants.streams(other, *databases)
    for deployment in tenants.of.values():
        assert_flows(deployment)
    other.stop()


def test_commands_know_the_databases_and_say_what_is_wrong_with_them(tenants: Tenants, made: Made) -> None:
    first = made()
    tenants.add(first)
    tenants.init()
    tenants.adopt(first)
    deployment = tenants.of[first.name]
    deployment.config = tenants.config
    tenants.catalog.execute("INSERT INTO tenants VALUES ('other', 'host=x password=${NO_SUCH_NAME}')")  # as it is
    assert deployment.command("config", "check").endswith(f"no problems in {first.name}, other\n")
    tenants.catalog.execute("DELETE FROM tenants WHERE name = 'other'")
    deployment.write("1")
    assert '"n"' not in deployment.command("tail", "--limit", "1", "--relay", first.name)
    said = deployment.said("run", "--processes", "2", exit_code=2)
    assert "A query finds the databases, so --processes needs --relay NAME; or start several instances instead." in said
    tenants.catalog.execute("DELETE FROM tenants")
    said = deployment.said("status", exit_code=1)
    assert said.startswith("error: the query of `databases` finds no database\nhint: ")
    tenants.catalog.execute("DROP TABLE tenants")
    said = deployment.said("run", exit_code=1)
    assert said.startswith("error: the query of `databases` failed: "), said
    assert "Tables need their schema" in said


def test_a_wrong_row_is_told_and_keeps_no_command_from_the_others(tenants: Tenants, made: Made) -> None:
    first = made()
    tenants.add(first)
    tenants.init()
    tenants.adopt(first)
    deployment = tenants.of[first.name]
    deployment.config = tenants.config
    tenants.catalog.execute("INSERT INTO tenants VALUES ('empty', NULL), ('Bad', %s)", [first.dsn])
    empty = f"{tenants.config}: the database 'empty' is left out: its DSN is NULL, empty or no text\n"
    said = deployment.said("status", "--json", exit_code=2)
    assert said.startswith(empty) or f"\n{empty}" in said
    assert "databases.Bad: 'walrelay_Bad' is no slot name" in said
    status = json.loads(deployment.command("status", "--json", exit_code=2))
    assert (status["relay"], status["slot"]) == (first.name, deployment.slot_name)
    deployment.command("status", "--relay", first.name)
    assert deployment.said("status", "--relay", "empty", exit_code=2) == empty
    assert empty in deployment.said("config", "check", exit_code=2), "it looks for what is wrong"
    assert f"Which relay? Name one with --relay: {first.name}." in deployment.said("dlq", "list", exit_code=2)
    tenants.catalog.execute("DELETE FROM tenants WHERE dsn IS NOT NULL")
    assert deployment.said("status", exit_code=2) == empty


def test_run_waits_for_the_catalog_and_for_the_first_database(
    tenants: Tenants, made: Made, postgres: Postgres, proxy: ProxyMaker
) -> None:
    first = made()
    tenants.add(first)
    tenants.init()
    tenants.adopt(first)
    between = proxy(postgres.port)
    settings = yaml.safe_load(tenants.config.read_text())
    settings["databases"]["dsn"] = make_conninfo(tenants.catalog.dsn, host=LOOPBACK, port=between.port)
    tenants.config.write_text(yaml.safe_dump(settings))
    between.refuse()
    relay = tenants.run()
    waits = relay.wait_for("retrying", containing="the query of `databases` failed: no connection to PostgreSQL")
    assert waits["level"] == "warning"
    relay.send(signal.SIGTERM)
    assert relay.wait() == 0
    tenants.remove(first)
    between.resume()
    relay = tenants.run()
    relay.wait_for("retrying", containing="the query of `databases` finds no database")
    tenants.add(first)
    tenants.streams(relay, first)
    assert_flows(tenants.of[first.name])
    relay.stop()
