"""Looks at the relays of several databases: what the server knows of them, and what their leaders tell."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import NamedTuple, Self

from walrelay.cli.remote import RemoteApi, remote_relays
from walrelay.errors import Fatal
from walrelay.operations.overview import DatabaseLook, SeenRelay
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.wal_pace import WalPace

_AT_ONCE = 8  # databases


class TopLook(NamedTuple):
    """All relays; and which databases could not be asked, by the names of their relays."""

    relays: Sequence[SeenRelay]
    errors: Sequence[tuple[str, Exception]]


class _Database:
    """One database, over one connection for as long as that lives."""

    def __init__(self, dsn: str, names: Mapping[str, str], *, only_named: bool) -> None:
        self._dsn, self.names, self._only_named = dsn, dict(names), only_named
        self._catalog: Catalog | None = None
        self._look = DatabaseLook(WalPace(sleep))

    def look(self) -> list[SeenRelay]:
        try:
            if self._catalog is None:
                self._catalog = Catalog(self._dsn)
            found = self._look.look(self._catalog, self.names)
        except Exception:
            self.close()
            raise
        return [each for each in found if not self._only_named or each.seen.slot in self.names]

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
        self._catalog = None


class Looking:
    """A context: its connections end with it."""

    def __init__(self, databases: Mapping[str, Mapping[str, str]], *, only_named: bool) -> None:
        """`databases`: names of relays by slot, by DSN."""
        self._databases = [_Database(dsn, names, only_named=only_named) for dsn, names in databases.items()]
        self._workers = ThreadPoolExecutor(_AT_ONCE, "look")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(wait=True, cancel_futures=True)
        for each in self._databases:
            each.close()

    def look(self) -> TopLook:
        """One database keeps no other from being shown."""
        looks = [(each, self._workers.submit(each.look)) for each in self._databases]
        relays, errors = list[SeenRelay](), list[tuple[str, Exception]]()
        for database, look in looks:
            try:
                relays += look.result()
            except Exception as error:
                errors.append((", ".join(database.names.values()), error))
        return TopLook(relays, errors)


class RemoteLooking:
    """The same by the admin API."""

    def __init__(self, api: RemoteApi, names: Sequence[str]) -> None:
        self._api, self._names = api, names

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def look(self) -> TopLook:
        try:
            return TopLook(remote_relays(self._api, self._names), [])
        except Fatal as error:
            return TopLook([], [("the admin API", error)])
