"""PostgreSQL as a broker: a table of another server."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg import sql

from walrelay.lab.brokers.contract import ReadMessage, ServedBroker
from walrelay.lab.servers.backstage import Backstage
from walrelay.lab.servers.postgres import EmbeddedPostgres
from walrelay.postgres.dsn import address
from walrelay.sinks.postgres.plugin import plugin

_MOMENT = 0.005  # seconds


class LabPostgres(ServedBroker):
    KIND, TITLE, PLUGIN, URL = "postgres", "PostgreSQL", plugin, "dsn"

    def __init__(self, backstage: Backstage, url: str | None) -> None:
        super().__init__(backstage, url)
        self.name = f"another {self._server.name}" if url is None else f"your PostgreSQL at {address(url)}"

    def consumer(self, topic: str) -> "TableConsumer":
        return TableConsumer(self._address, _table(topic))

    def held(self, topic: str) -> int:
        return int(self._value(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(_table(topic)))))

    def _begin(self) -> str:
        self._server = EmbeddedPostgres(self._backstage, home="target")
        return ""

    def _until_ready(self) -> str:
        return self._server.ready()

    def _version(self) -> str:
        return str(self._value("SHOW server_version")).split()[0]

    def _remove(self, topic: str) -> None:
        for table in (_table(topic), _positions(topic)):
            self._value(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(table)))

    def _named(self, topic: str) -> Mapping[str, Any]:
        return {"table": _table(topic), "positions_table": _positions(topic)} if topic else {}

    def _value(self, query: str | sql.Composed) -> Any:
        with psycopg.connect(self._address, autocommit=True) as connection:
            cursor = connection.execute(query.encode() if isinstance(query, str) else query)
            row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


class TableConsumer:
    """Asks again and again, as whoever reads a table does."""

    def __init__(self, dsn: str, table: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        query = "SELECT seq, id, key, value FROM {} WHERE seq > %s ORDER BY seq LIMIT 1000"
        self._query, self._last = sql.SQL(query).format(sql.Identifier(table)), 0

    def receive(self) -> Iterable[ReadMessage]:
        rows = self._connection.execute(self._query, [self._last]).fetchall()
        if not rows:
            time.sleep(_MOMENT)
            return []
        self._last = rows[-1][0]
        return [ReadMessage(id_, key, value.encode()) for _, id_, key, value in rows]

    def close(self) -> None:
        self._connection.close()


def _table(topic: str) -> str:
    return topic.replace(".", "_")


def _positions(topic: str) -> str:
    return f"{_table(topic)}_positions"
