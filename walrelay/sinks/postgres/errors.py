"""What the errors of the target database mean, by SQLSTATE: whose fault they are, and whether waiting helps."""

import re

import psycopg

from walrelay.errors import Fatal, Retryable, WalrelayError
from walrelay.postgres.dsn import address, cure
from walrelay.postgres.failures import first_line
from walrelay.sinks.groups import Culprit

_OF_A_MESSAGE = ("22", "23", "P0")  # data exceptions, integrity constraints, what a trigger raised
_TOO_LARGE = "54000"
_OF_A_TABLE = ("42", "3F", "0A")
_VALUE = re.compile(r': ".*', re.DOTALL)  # at the end of what the server says of data: no log shows what an event holds
_WORDS = {  # error, hint
    "42P01": (
        "unknown_topic",
        "Create the table, which walrelay init --topics does for a topic, or correct sink.table.",
    ),
    "3F000": ("unknown_topic", "Create the schema and the table, or correct sink.table."),
    "42703": ("unknown_topic", "Add the column, or correct sink.columns."),
    "42501": ("not_authorized", "GRANT INSERT ON the table TO the role of sink.dsn;"),
}


def culprit(error: psycopg.Error, number: int) -> Culprit:
    """Why the message of that number is refused; raises Retryable if no message is to blame."""
    state, text = error.sqlstate or "", first_line(error)
    if state[:2] in _OF_A_MESSAGE or state == _TOO_LARGE:
        text = _VALUE.sub("", text) if state[:2] == "22" else text
        what = "The event is not what the table takes: correct the table or sink.columns, or let it be a dead letter."
        return Culprit(number, f"PostgreSQL refused it: {text} ({state})", what, "refused", "message")
    if state[:2] in _OF_A_TABLE:
        name, hint = _WORDS.get(state, ("refused", "Correct the table, or sink.table and sink.columns."))
        return Culprit(number, f"PostgreSQL refused it: {text} ({state})", hint, name, "topic")
    raise broken(error)


def broken(error: Exception) -> Retryable:
    """For an error that ends the connection, or that will pass."""
    return Retryable(f"the database of the sink took nothing: {first_line(error)}")


def not_connected(error: psycopg.Error, dsn: str, *, ever: bool) -> WalrelayError:
    """`ever`: this process was connected before. Passwords and databases are changed while a relay runs; but at the
    first connection their refusal is a mistake.
    """
    text = re.sub(r"^connection failed: ", "", first_line(error))
    fix, final = cure(text, dsn)
    text = f"no connection to the database of the sink at {address(dsn)}: {text}"
    if final and not ever:
        return Fatal(text, hint=fix.replace("source.dsn", "sink.dsn").replace(" REPLICATION ", " "))
    return Retryable(text)
