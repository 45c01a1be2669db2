"""Which library a connection belongs to, and its adapter."""

from importlib import import_module
from inspect import iscoroutinefunction
from typing import Protocol, TypeGuard, cast

from walrelay.connections.contract import AnyConnection, AsyncConnection

_LIBRARIES = ("psycopg", "asyncpg", "sqlalchemy", "django")


class UnknownConnection(TypeError):
    """An object that is no connection."""


class _Adapter(Protocol):
    """A module of this package."""

    def adapted(self, connection: object) -> AnyConnection | None:
        """None: the object is of the library, but no connection."""


def joined(connection: object) -> AnyConnection:
    """The connection, as outbox and inbox use it: a SyncConnection, or an AsyncConnection if its own methods are."""
    for library in _libraries(connection):
        adapter = cast(_Adapter, import_module(f"walrelay.connections.of_{library}"))
        if (found := adapter.adapted(connection)) is not None:
            return found
    raise UnknownConnection(
        f"{type(connection).__module__}.{type(connection).__qualname__} is not a connection that walrelay knows. Pass a"
        " connection of psycopg 3 or asyncpg, a Connection or Session of SQLAlchemy 2 (sync or async), or Django's"
        " django.db.connection; not a cursor, a pool or an engine."
    )


def is_async(connection: AnyConnection) -> TypeGuard[AsyncConnection]:
    """Whether its methods are awaited."""
    return iscoroutinefunction(connection.execute)


def _libraries(connection: object) -> list[str]:
    """By all base classes: the application may have a subclass."""
    modules = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
    return [library for library in _LIBRARIES if library in modules]
