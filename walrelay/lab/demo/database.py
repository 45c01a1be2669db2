"""The demo's objects in the database: made by the code of `walrelay init`, with names of the demo's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from walrelay import compose
from walrelay.config import Settings
from walrelay.errors import Fatal
from walrelay.lab.servers import guest
from walrelay.postgres.catalog import Catalog

_PATIENCE = 30.0  # seconds to wait for open transactions when the slot is made

_SCHEMA = "walrelay_demo"
_MARK = "Made by walrelay demo, which also removes it."

_SHOP = f"""
CREATE SCHEMA walrelay_demo;
COMMENT ON SCHEMA walrelay_demo IS '{_MARK}';
CREATE TABLE walrelay_demo.orders (
    id text PRIMARY KEY, customer text NOT NULL, total numeric NOT NULL, status text NOT NULL
);
"""

# Those of docs/security.md: nobody who works in the demo is a superuser.
OWNER, RELAY, WRITER = "outbox_owner", "relay", "shop"

_ROLES = f"""
CREATE ROLE {OWNER} LOGIN REPLICATION;
GRANT CREATE ON DATABASE postgres TO {OWNER};
CREATE ROLE {RELAY} LOGIN REPLICATION;
GRANT pg_read_all_stats TO {RELAY};
CREATE ROLE {WRITER} LOGIN;
"""

_GRANTS = f"""
GRANT USAGE ON SCHEMA walrelay, walrelay_demo TO {RELAY}, {WRITER};
GRANT SELECT ON walrelay.slots TO {RELAY};
GRANT SELECT, INSERT, UPDATE ON walrelay.dead_letters TO {RELAY};
GRANT INSERT ON walrelay_demo.outbox TO {WRITER};
GRANT SELECT, INSERT, UPDATE ON walrelay_demo.orders TO {WRITER};
"""

_EMIT = "SELECT walrelay.emit('order', %(order)s, %(type)s, %(payload)s, id => %(id)s)"

# What walrelay.emit does. A database of the user's may have one, and it writes to the user's outbox.
_INSERT = """
INSERT INTO walrelay_demo.outbox (aggregate_type, aggregate_id, type, payload, id)
VALUES ('order', %(order)s, %(type)s, %(payload)s, %(id)s)
"""


def make_roles(superuser: str) -> None:
    """On an embedded server, by that DSN."""
    with Catalog(superuser) as catalog:
        catalog.connection.execute(_ROLES.encode())


@contextmanager
def prepared(settings: Settings, *, embedded: bool) -> Iterator[str]:
    """Schema and tables of the shop, outbox, publication and slot; yields the statement that writes an event.

    Everything goes afterwards; an embedded server goes as a whole.
    """
    with Catalog(compose.dsn(settings)) as catalog:
        guest.refuse_wrong_wal_level(catalog, "the demo")
        _refuse_another(catalog, settings.source.slot)
        guest.remove_leftovers(catalog, settings, "demo", _SCHEMA, _MARK)
        bookkeeping = guest.has_bookkeeping(catalog)
    try:
        with Catalog(compose.dsn(settings)) as catalog:
            guest.make(catalog, settings, "the demo", _SHOP, with_emit=embedded, patience=_PATIENCE)
            if embedded:
                catalog.connection.execute(_GRANTS.encode())
        yield _EMIT if embedded else _INSERT
    finally:
        if not embedded:
            guest.remove(settings, _SCHEMA, with_bookkeeping=not bookkeeping)


def greet(dsn: str, emit: str) -> str:
    """Commits an event that nobody counts, and returns its id: when it arrives, everyone is connected."""
    event = str(uuid4())
    greeting = {"id": event, "order": "greeting", "type": "Greeting", "payload": '{"step": 0}'}
    with Catalog(dsn) as catalog:
        catalog.connection.execute(emit.encode(), greeting)
    return event


def _refuse_another(catalog: Catalog, name: str) -> None:
    slot = catalog.slot(name)
    if slot is not None and slot.active_pid is not None:
        raise Fatal(
            f"slot {slot.name!r} is in use by PID {slot.active_pid}: a demo is running on this server",
            hint="Wait until it has ended.",
        )
