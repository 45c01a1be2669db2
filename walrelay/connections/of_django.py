"""Django: `django.db.connection`, or one of `django.db.connections`."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, cast

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionProxy

from walrelay.connections.contract import AnyConnection, OutsideTransaction
from walrelay.connections.statement import Row, Statement

_HOW = "Write `with transaction.atomic():` around it, or set ATOMIC_REQUESTS."


def adapted(connection: object) -> AnyConnection | None:
    return SyncDjango(connection) if isinstance(connection, BaseDatabaseWrapper | ConnectionProxy) else None


class SyncDjango:
    """`connection` is a DatabaseWrapper, or the proxy of the thread's own."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def require_transaction(self, what: str) -> None:
        if self._connection.get_autocommit() and not self._connection.in_atomic_block:
            raise OutsideTransaction(what, _HOW)

    def execute(self, statement: Statement) -> list[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement.pyformat(), dict(statement.parameters))
            return list(cursor.fetchall()) if statement.answers else []

    def savepoint(self) -> AbstractContextManager[object]:
        return cast(AbstractContextManager[object], transaction.atomic(using=self._connection.alias))

    def copies(self) -> bool:
        return False

    def copy(self, table: tuple[str, str], columns: list[str], lines: Iterable[str]) -> None:
        raise NotImplementedError("Django has no COPY")
