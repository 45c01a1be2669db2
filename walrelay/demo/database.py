"""The demo's objects in the database: made by the code of `walrelay init`, with names of the demo's own."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg

from walrelay import compose
from walrelay.config import Settings
from walrelay.errors import Fatal
from walrelay.source import setup
from walrelay.source.catalog import Catalog
from walrelay.source.failures import first_line

_MARK = "Made by walrelay demo, which also removes it."

_SHOP = f"""
CREATE SCHEMA walrelay_demo;
COMMENT ON SCHEMA walrelay_demo IS '{_MARK}';
CREATE TABLE walrelay_demo.orders (
    id text PRIMARY KEY, customer text NOT NULL, total numeric NOT NULL, status text NOT NULL
);
"""

_EMIT = "SELECT walrelay.emit('order', %(order)s, %(type)s, %(payload)s, id => %(id)s)"

_TAKEN = """
SELECT FROM pg_namespace WHERE nspname = 'walrelay_demo' UNION ALL
SELECT FROM pg_publication WHERE pubname = 'walrelay_demo'
"""

# What walrelay.emit does. A database of the user's may have one, and it writes to the user's outbox.
_INSERT = """
INSERT INTO walrelay_demo.outbox (aggregate_type, aggregate_id, type, payload, id)
VALUES ('order', %(order)s, %(type)s, %(payload)s, %(id)s)
"""


@contextmanager
def prepared(settings: Settings, *, embedded: bool) -> Iterator[str]:
    """Schema and tables of the shop, outbox, publication and slot; yields the statement that writes an event.

    Everything goes afterwards; an embedded server goes as a whole.
    """
    with Catalog(compose.dsn(settings)) as catalog:
        _refuse_wrong_wal_level(catalog)
        _remove_leftovers(catalog, settings)
        with_schema = catalog.value("SELECT to_regnamespace('walrelay') IS NULL")
    try:
        _make(settings, with_emit=embedded)
        yield _EMIT if embedded else _INSERT
    finally:
        if not embedded:
            _remove(settings, with_schema=with_schema)


def greet(settings: Settings, emit: str) -> str:
    """Commits an event that nobody counts, and returns its id: when it arrives, everyone is connected."""
    event = str(uuid4())
    greeting = {"id": event, "order": "greeting", "type": "Greeting", "payload": '{"step": 0}'}
    with Catalog(compose.dsn(settings)) as catalog:
        catalog.connection.execute(emit.encode(), greeting)
    return event


def _make(settings: Settings, *, with_emit: bool) -> None:
    with Catalog(compose.dsn(settings)) as catalog:
        try:
            catalog.connection.execute(_SHOP.encode())
        except psycopg.errors.InsufficientPrivilege as cause:
            raise Fatal(
                f"the demo may not make a schema of its own: {first_line(cause)}",
                hint="GRANT CREATE ON DATABASE ... TO ..., or give --dsn a role that may.",
            ) from cause
        wanted = compose.wanted(settings)
        steps = [step for step in setup.plan(catalog, wanted) if with_emit or step.what != "function walrelay.emit"]
        for _ in setup.apply(catalog, wanted, steps, patience=30):
            pass


def _remove(settings: Settings, *, with_schema: bool) -> None:
    """Everything that was made; the schema walrelay only if it was not there before and is not used by now."""
    with Catalog(compose.dsn(settings)) as catalog:
        _until_let_go(catalog, settings.source.slot)
        for _ in setup.drop(catalog, settings.source.slot, compose.publication(settings)):
            pass
        if catalog.value("SELECT to_regnamespace('walrelay_demo')::text"):
            catalog.connection.execute("DROP SCHEMA walrelay_demo CASCADE")
        if with_schema and _bookkeeping_is_empty(catalog):
            catalog.connection.execute("DROP TABLE walrelay.slots; DROP SCHEMA walrelay")


def _bookkeeping_is_empty(catalog: Catalog) -> bool:
    there = catalog.value("SELECT to_regclass('walrelay.slots') IS NOT NULL")
    return bool(there) and not catalog.rows("SELECT slot_name FROM walrelay.slots")


def _refuse_wrong_wal_level(catalog: Catalog) -> None:
    level = catalog.value("SHOW wal_level")
    if level != "logical":
        raise Fatal(
            f"the server's wal_level is {level}, and a logical slot needs logical",
            hint="ALTER SYSTEM SET wal_level = logical; then restart PostgreSQL. `walrelay doctor` finds what else"
            " the server lacks; without --dsn the demo brings a PostgreSQL of its own.",
        )


def _remove_leftovers(catalog: Catalog, settings: Settings) -> None:
    """Those of a demo that was killed; Fatal where one is running, and for what is not a demo's."""
    slot = catalog.slot(settings.source.slot)
    if slot is not None and slot.active_pid is not None:
        raise Fatal(
            f"slot {slot.name!r} is in use by PID {slot.active_pid}: a demo is running on this server",
            hint="Wait until it has ended.",
        )
    if slot is not None and slot.database != catalog.value("SELECT current_database()"):
        raise Fatal(
            f"slot {slot.name!r} is there already, of database {slot.database}",
            hint="If a demo was killed there, the next one on that database removes it.",
        )
    if catalog.value("SELECT obj_description(to_regnamespace('walrelay_demo'), 'pg_namespace')") == _MARK:
        _remove(settings, with_schema=False)
    elif slot is not None or catalog.rows(_TAKEN):
        raise Fatal(
            "the database has a slot, a schema or a publication walrelay_demo that no demo made",
            hint="The demo needs that name for itself: use another database, or drop them.",
        )


def _until_let_go(catalog: Catalog, name: str) -> None:
    """A walsender notices that its relay has left only a moment later."""
    deadline = time.monotonic() + 5
    while (slot := catalog.slot(name)) and slot.active_pid is not None and time.monotonic() < deadline:
        time.sleep(0.02)
