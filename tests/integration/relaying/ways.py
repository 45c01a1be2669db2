"""The four ways in which a relay reads: every behaviour must be the same in all of them."""

import os
from functools import cache
from typing import Any

from tests.servers.choose import Missing, give_up
from tests.servers.database import Postgres

WAYS: dict[str, dict[str, Any]] = {
    "text": {"plugin": "pgoutput", "binary": False},
    "binary": {"plugin": "pgoutput", "binary": True},
    "format1": {"plugin": "wal2json", "wal2json_format": 1},
    "format2": {"plugin": "wal2json", "wal2json_format": 2},
}
"""Name -> the settings of the section `source` that make it so."""

PGOUTPUT = ("text", "binary")
WAL2JSON = ("format1", "format2")


def there(server: Postgres) -> list[str]:
    """The ways in which the server can be read; under CI it must be all."""
    if not _has_wal2json(server) and os.environ.get("CI") != "true":
        return [*PGOUTPUT]
    for way in WAYS:
        need(way, server)
    return [*WAYS]


def need(way: str, server: Postgres) -> None:
    """Skips the test, or fails it under CI, where the server cannot be read in that way."""
    if WAYS[way]["plugin"] == "wal2json" and not _has_wal2json(server):
        give_up(Missing("this PostgreSQL has no wal2json"))


@cache
def _has_wal2json(server: Postgres) -> bool:
    return server.has_wal2json
