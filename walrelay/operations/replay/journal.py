"""What walrelay.replays says of unfinished replays: what they publish again, and how far they got."""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from walrelay.ddl import script
from walrelay.errors import Fatal
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import ErrorWords, explained
from walrelay.postgres.locks import hold, replay_lock
from walrelay.postgres.rights import grant_statements, grouped, table_rights
from walrelay.table.selection import Reached

_TABLE = "walrelay.replays"


class ReplayRequest(NamedTuple):
    """What an operator typed; the same request means the same replay. `since` and `until` may be relative to now."""

    since: str | None = None
    until: str | None = None
    aggregates: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    positions: str | None = None
    everything: bool = False
    topic: str | None = None
    tenants: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The same for the same request, also if a version that knew no tenants began it."""
        return sha256(json.dumps(self if self.tenants else self[:-1]).encode()).hexdigest()[:8]

    @property
    def selects(self) -> bool:
        """Whether the request says which rows."""
        return self != ReplayRequest(topic=self.topic)


class ReplayProgress(NamedTuple):
    """A replay of rows of transactions below `ceiling`, between two times that were fixed when it began. Everything
    before `reached`, in the order of the terms in `order`, is durable.
    """

    asked: ReplayRequest
    since: str | None
    until: str | None
    ceiling: int
    published: int = 0
    order: tuple[str, ...] = ()
    reached: tuple[str | None, ...] | None = None


class ListedReplay(NamedTuple):
    """An unfinished replay; times as PostgreSQL prints them."""

    name: str
    begun_at: str
    changed_at: str
    replaying: ReplayProgress


class ReplayJournal:
    """The row of one replay; each call is durable when it returns."""

    def __init__(self, catalog: Catalog, slot: str, name: str) -> None:
        self._catalog, self._slot, self._name = catalog, slot, name
        self._now: ReplayProgress | None = None

    def begin(self, replaying: ReplayProgress, *, resumed: bool, restart: bool) -> None:
        """Notes a new replay, or goes on with an earlier one; `restart` replaces that. Fatal if another process began
        or ended it since this one was planned.
        """
        self._lock()
        _make_table(self._catalog)
        found = unfinished_replay(self._catalog, self._slot, self._name, restart=restart)
        if resumed != (found is not None) and found != replaying and not restart:
            raise Fatal(
                f"another process {'ended' if resumed else 'began'} replay {self._name} meanwhile",
                hint="`walrelay replay --list` shows what there is.",
            )
        self._now = found if resumed and found is not None else replaying
        self._catalog.run(
            f"INSERT INTO {_TABLE} AS r (slot_name, name, system_identifier, progress)"
            " SELECT %s, %s, system_identifier::text, %s::jsonb FROM pg_control_system()"
            " ON CONFLICT (slot_name, name) DO UPDATE SET progress = excluded.progress, changed_at = now(),"
            " system_identifier = excluded.system_identifier, begun_at = CASE WHEN %s THEN r.begun_at ELSE now() END",
            *(self._slot, self._name, _written(self._now), resumed),
        )

    def resumes(self) -> None:
        """For another attempt: the row may have been dropped since."""
        self._lock()
        self._now = unfinished_replay(self._catalog, self._slot, self._name)
        if self._now is None:
            raise self._dropped()

    @property
    def published(self) -> int:
        """How many rows are known to be durable."""
        return self._now.published if self._now else 0

    def in_order(self, order: Sequence[str]) -> tuple[Reached, ...]:
        """What was reached in the same order of terms; in another order a place means nothing."""
        assert self._now is not None
        if self._now.order != tuple(order):
            self._now = self._now._replace(order=tuple(order), reached=None)
        return () if self._now.reached is None else (Reached(self._now.ceiling, self._now.reached),)

    def reached(self, key: Sequence[bytes | None], published: int) -> None:
        """All rows before `key` are durable, `published` of them since the last call."""
        assert self._now is not None
        self._now = self._now._replace(published=self._now.published + published)
        try:
            before = tuple(None if value is None else value.decode() for value in key)
        except UnicodeDecodeError:  # in a SQL_ASCII database; JSON cannot hold it, so a later place has to do
            return
        self._now = self._now._replace(reached=before)
        changed = self._catalog.run(
            f"UPDATE {_TABLE} SET progress = %s::jsonb, changed_at = now() WHERE slot_name = %s AND name = %s",
            *(_written(self._now), self._slot, self._name),
        )
        if changed != 1:
            raise self._dropped()

    def finish(self) -> None:
        drop_replay(self._catalog, self._slot, self._name)

    def _lock(self) -> None:
        hold(self._catalog, replay_lock(self._catalog, self._slot, self._name))

    def _dropped(self) -> Fatal:
        return Fatal(
            f"replay {self._name} was dropped from {_TABLE} while it was under way",
            hint="Run the command again to start over: what was published so far is published again.",
        )


def unfinished_replay(catalog: Catalog, slot: str, name: str, *, restart: bool = False) -> ReplayProgress | None:
    """The unfinished replay of that name; None if there is none, or `restart` ignores it. Fatal in a dump that was
    restored elsewhere: the numbers of transactions mean nothing there.
    """
    if restart or not replays_table_exists(catalog):
        return None
    query = (
        "SELECT progress, system_identifier = (SELECT system_identifier::text FROM pg_control_system())"
        f" FROM {_TABLE} WHERE slot_name = %s AND name = %s"
    )
    for found, written_here in catalog.rows(query, slot, name):
        if not written_here:
            raise Fatal(
                f"replay {name} was begun on another server: its progress does not apply to this server",
                hint="`--restart` starts it over; `walrelay replay --drop` gives it up.",
            )
        return _read(found)
    return None


def unfinished_replays(catalog: Catalog, slot: str) -> Iterator[ListedReplay]:
    """The unfinished replays, the oldest first."""
    if replays_table_exists(catalog):
        query = (
            "SELECT name, to_char(begun_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'),"
            " to_char(changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), progress"
            f" FROM {_TABLE} WHERE slot_name = %s ORDER BY begun_at"
        )
        for name, begun_at, changed_at, progress in catalog.rows(query, slot):
            yield ListedReplay(name, begun_at, changed_at, _read(progress))


def drop_replay(catalog: Catalog, slot: str, name: str) -> bool:
    """Returns whether there was one."""
    query = f"DELETE FROM {_TABLE} WHERE slot_name = %s AND name = %s"
    return replays_table_exists(catalog) and catalog.run(query, slot, name) == 1


def replays_table_exists(catalog: Catalog) -> bool:
    return catalog.value(f"SELECT to_regclass('{_TABLE}')") is not None


def _make_table(catalog: Catalog) -> None:
    if replays_table_exists(catalog):
        return
    refused = f"{_TABLE} cannot be made"
    words = ErrorWords(refused, f"the role may not make the table {_TABLE}", refused, hint="Run `walrelay init` first.")
    by_init = "`walrelay init` makes it, by a role that owns the schema walrelay. Then: "
    with explained(words, lambda: by_init + grant_statements(grouped(catalog.connection, table_rights("replays")))):
        catalog.connection.execute(script("replays").encode())


def _written(replaying: ReplayProgress) -> str:
    members = {**replaying._asdict(), "asked": replaying.asked._asdict()}
    return json.dumps(members, ensure_ascii=False)  # an escape would have to be in the database's encoding


def _read(found: dict[str, Any]) -> ReplayProgress:
    lists = ("aggregates", "types", "ids", "tenants")
    asked: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in found["asked"].items()}
    reached = None if found["reached"] is None else tuple(found["reached"])
    return ReplayProgress(
        **{**found, "asked": ReplayRequest(**asked), "order": tuple(found["order"]), "reached": reached}
    )
