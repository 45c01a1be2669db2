"""What the errors of the target database mean, by SQLSTATE: whose fault they are, and whether waiting helps."""

import re

import psycopg

from walrelay.errors import Retryable, SinkError, WalrelayError
from walrelay.postgres.dsn import address, cure
from walrelay.postgres.failures import connection_lost, first_line
from walrelay.sinks.group_contract import Culprit

_OF_A_MESSAGE = ("22", "23", "P0")  # data exceptions, integrity constraints, what PL/pgSQL raises
_OWN = re.compile(r"0[0-3089ABFLPZ]|10|2[0-8BDF]|34|3[89BDF]|4[024]|5[34578]|72|F0|HV|P0|XX")
"""Classes that PostgreSQL has: any other is of a trigger, and so of a row."""
_PASSING = ("08", "40", "53", "57")  # also where a trigger says so: another time may do
_NO_ROOM = "53"
_LOCKED = ("55P03", "55006")
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


class NoRoomForGroup(Retryable):
    """The database has no room for a group now. A smaller group may fit."""


def culprit(error: psycopg.Error, number: int) -> Culprit:
    """Why the message of that number is refused; raises Retryable if no message is to blame."""
    state, text = error.sqlstate or "", first_line(error)
    if _is_of_the_row(error, state):
        text = _VALUE.sub("", text) if state[:2] == "22" else text
        what = "The event is not what the table takes: correct the table or sink.columns, or let it be a dead letter."
        return Culprit(number, f"PostgreSQL refused it: {text} ({state})", what, "refused", "message")
    if state[:2] in _OF_A_TABLE:
        name, hint = _WORDS.get(state, ("refused", "Correct the table, or sink.table and sink.columns."))
        return Culprit(number, f"PostgreSQL refused it: {text} ({state})", hint, name, "topic")
    raise broken(error)


def _is_of_the_row(error: psycopg.Error, state: str) -> bool:
    """An error of a table comes before its first row, and has no context; one inside of a trigger has it."""
    if state[:2] in _OF_A_MESSAGE or state == _TOO_LARGE or (state and not _OWN.fullmatch(state[:2])):
        return True
    if state[:2] in _PASSING or state in _LOCKED:
        return False
    raised = error.diag.source_function == "exec_stmt_raise"  # RAISE of PL/pgSQL, with a state that the server has, too
    return raised or (state[:2] in _OF_A_TABLE and bool(error.diag.context))


def broken(error: Exception) -> Retryable:
    """For an error that ends the connection, or that will pass."""
    if isinstance(error, psycopg.Error) and connection_lost(error):
        why = "the connection to the database of the sink broke, and it is not known whether it took the last rows"
        return Retryable(f"{why}: {first_line(error)}")
    state = error.sqlstate if isinstance(error, psycopg.Error) else ""
    text = f"the database of the sink took nothing: {first_line(error)}" + (f" ({state})" if state else "")
    return NoRoomForGroup(text) if (state or "")[:2] == _NO_ROOM else Retryable(text)


def not_connected(error: psycopg.Error, dsn: str, *, ever: bool) -> WalrelayError:
    """`ever`: this process was connected before. Passwords and databases are changed while a relay runs; but at the
    first connection their refusal is a mistake.
    """
    text = re.sub(r"^connection failed: ", "", first_line(error))
    fix, final = cure(text, dsn)
    text = f"no connection to the database of the sink at {address(dsn)}: {text}"
    if final and not ever:
        return SinkError(text, hint=fix.replace("source.dsn", "sink.dsn").replace(" REPLICATION ", " "))
    return Retryable(text)
