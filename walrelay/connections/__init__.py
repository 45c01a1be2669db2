"""An application's own connection, of whichever library: statements in its transaction, and nothing else.

What applications import (`walrelay.outbox`, `walrelay.inbox`) stands on this. Nothing is imported here before a
connection of its library comes: psycopg, asyncpg, SQLAlchemy and Django are the application's, not ours.
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
