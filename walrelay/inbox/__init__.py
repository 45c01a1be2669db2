"""What consumers and command APIs import: messages handled once, commands answered once.

Everything is written in the application's own transaction, through the connection that it passes: psycopg 3, asyncpg,
SQLAlchemy 2 or Django. Nothing here connects, commits, or knows the relay. The middleware is in `walrelay.inbox.asgi`.
"""

from walrelay.connections import OutsideTransaction, UnknownConnection
from walrelay.inbox.identity import Identity, MessageTrace, Position, Unidentified, identify
from walrelay.inbox.keys import Command, IdempotencyConflict, IdempotencyKeys, Response, Unanswered
from walrelay.inbox.receiving import Inbox

__all__ = [
    "Command",
    "IdempotencyConflict",
    "IdempotencyKeys",
    "Identity",
    "Inbox",
    "MessageTrace",
    "OutsideTransaction",
    "Position",
    "Response",
    "Unanswered",
    "Unidentified",
    "UnknownConnection",
    "identify",
]
