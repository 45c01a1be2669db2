"""What a command left in the database."""

from tests.servers.database import Database


def handled(database: Database) -> list[str]:
    return [what for (what,) in database.execute("SELECT what FROM handled")]


def keys(database: Database) -> int:
    return len(database.execute("SELECT 1 FROM idempotency_keys"))
