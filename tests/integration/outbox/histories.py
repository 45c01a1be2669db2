"""A table whose rows say by themselves what was committed, beside the events that tell of it.

Each change appends a word of its own to the row's log, and is recorded as an event of that word. So whatever a
framework does with sessions, savepoints and objects: the words in the committed rows are the events that must be in the
outbox. A trigger keeps the logs of deleted rows; an event `<last word>-deleted` tells of the deletion.
"""

from itertools import count
from typing import Any

import psycopg

WORDS = count()

TABLES = """
    CREATE TABLE entries (id serial PRIMARY KEY, log text NOT NULL DEFAULT '');
    CREATE TABLE graves (log text NOT NULL);
    CREATE FUNCTION bury() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO graves VALUES (OLD.log); RETURN OLD; END $$;
    CREATE TRIGGER bury BEFORE DELETE ON entries FOR EACH ROW EXECUTE FUNCTION bury();
"""


def emptied(connection: psycopg.Connection[Any]) -> None:
    connection.execute("DELETE FROM entries; DELETE FROM graves; DELETE FROM outbox")


def check(connection: psycopg.Connection[Any]) -> None:
    """The outbox has an event for each change committed beside it, once, those of a row in their order; no other."""
    query = (
        "SELECT (SELECT array_agg(log) FROM entries), (SELECT array_agg(log) FROM graves),"
        " (SELECT array_agg(type ORDER BY created_at, id) FROM outbox)"
    )
    ((alive, gone, events),) = connection.execute(query).fetchall()
    logs = [log.split() for log in alive or ()]
    buried = [log.split() for log in gone or ()]
    expected = [*logs, *([*log, f"{log[-1]}-deleted"] for log in buried)]
    assert sorted(events or ()) == sorted(word for log in expected for word in log)
    places = {what: place for place, what in enumerate(events or ())}
    for log in expected:
        assert sorted(log, key=places.__getitem__) == log
