"""An application's own connection, of any library: statements in its transaction, and nothing else.

`walrelay.outbox` and `walrelay.inbox` use it. A library (psycopg, asyncpg, SQLAlchemy, Django) is imported only when a
connection of it comes.
"""

from walrelay.connections.contract import AnyConnection, AsyncConnection, OutsideTransaction, SyncConnection
from walrelay.connections.joining import UnknownConnection, is_async, joined
from walrelay.connections.sqlstates import sqlstate
from walrelay.connections.statement import Parameter, Row, Statement
from walrelay.connections.steps import Steps, run, run_async

__all__ = [
    "AnyConnection",
    "AsyncConnection",
    "OutsideTransaction",
    "Parameter",
    "Row",
    "Statement",
    "Steps",
    "SyncConnection",
    "UnknownConnection",
    "is_async",
    "joined",
    "run",
    "run_async",
    "sqlstate",
]
