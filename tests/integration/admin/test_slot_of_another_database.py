"""A relay whose slot belongs to another database: the settings lead to a copy of it (CREATE DATABASE ... TEMPLATE)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from tests.integration.admin.conftest import TOKENS, Api, made_api, sections_of
from tests.integration.admin.test_owasp import OPERATIONS, Operation
from tests.integration.dead_letters.test_dead_letters import letter
from tests.servers.database import Database
from walrelay.dead_letters import DeadLetterTableWriter
from walrelay.postgres.catalog import Catalog

_SLOTS = "SELECT slot_name, database, confirmed_flush_lsn FROM pg_replication_slots WHERE database = %s"

NOT_BY_SLOT = {"doctor", "settings", "history", "route-test"}
"""Routes that say it among other things, or that ask no database."""


class Copy(Api):
    """The API of the copy. The original has a dead letter and a job, which came along."""

    original: Database
    copy: Database

    def slots(self) -> list[tuple[Any, ...]]:
        return self.original.server.execute(_SLOTS, [self.original.name])

    def state(self) -> list[Any]:
        tables = ("walrelay.relays", "walrelay.dead_letters", "walrelay.jobs", "walrelay.slots", "outbox")
        return [self.copy.execute(f"SELECT to_jsonb(t)::text FROM {table} t ORDER BY 1") for table in tables]


@pytest.fixture
def copy(database: Database, tmp_path: Path) -> Iterator[Copy]:
    other = Database(database.server, f"{database.name}_copy")
    with made_api(tmp_path, **sections_of(database)):
        pass
    with Catalog(database.dsn) as catalog:
        DeadLetterTableWriter(catalog, database.name, lambda topic: "").write(letter(1))
    database.execute("SELECT walrelay.emit('order', '1', 'Placed', '{}')")
    database.execute(
        "INSERT INTO walrelay.jobs (slot_name, action, request, caller, state, total)"
        " VALUES (%s, 'replay', '{}', 'a', 'done', 1)",
        [database.name],
    )
    clone = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    database.server.execute(clone.format(*map(sql.Identifier, (other.name, database.name))).as_string())
    sections = sections_of(database)
    sections["source"]["dsn"] = other.dsn
    try:
        with made_api(tmp_path, init=False, **sections) as api:
            api.__class__ = Copy
            assert isinstance(api, Copy)
            api.original, api.copy = database, other
            yield api
    finally:
        other.drop()


BY_SLOT = [each for each in OPERATIONS if "{relay}" in each.path and each.path.rpartition("/")[2] not in NOT_BY_SLOT]


@pytest.mark.parametrize("operation", BY_SLOT, ids=lambda each: f"{each.method} {each.path}")
def test_a_route_names_the_other_database_and_leaves_its_slot(copy: Copy, operation: Operation) -> None:
    slots, before = copy.slots(), copy.state()
    answer = operation.ask(copy, copy.original.name, TOKENS["admin"].token)
    said = f"belongs to database {copy.original.name}, the DSN leads to {copy.copy.name}"
    assert answer.status_code == 409, answer.text
    assert said in answer.json()["detail"]
    assert (copy.slots(), copy.state()) == (slots, before)
