"""What PostgreSQL's errors mean for the relay: by SQLSTATE, never by text, which is translated."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import psycopg
from psycopg import errors, pq

from walrelay.errors import Disconnected, Fatal, NotServing, Retryable, Waiting, WalrelayError
from walrelay.wire.commands import Options

# For other packages, which do not import psycopg.
PostgresError = psycopg.Error
ConnectionBroke = psycopg.OperationalError
StatementTimeout = errors.QueryCanceled
TooWide = errors.ProgramLimitExceeded  # a value, for an index for instance
NoSuchObject = errors.UndefinedObject
NoSuchTable = (errors.UndefinedTable, errors.InvalidSchemaName)
InTheWay = (errors.LockNotAvailable, errors.QueryCanceled, errors.SerializationFailure, errors.DeadlockDetected)
Notice = errors.Diagnostic

_LIST = "ALTER SYSTEM SET output_plugin_libraries = pgoutput, test_decoding, wal2json; SELECT pg_reload_conf();"


def first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def readable(text: bytes | None) -> str:
    """Text of the server; in a database without an encoding (SQL_ASCII) it may be any bytes."""
    return (text or b"").decode("utf-8", "replace").strip()


def server_message(result: pq.abc.PGresult) -> str:
    return readable(result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message)


_DATA = ("22", "23")  # SQLSTATE classes whose DETAIL and CONTEXT quote what is in rows
_LONG = 500  # characters


def _whole(text: str, sqlstate: str, detail: str, context: str) -> str:
    """The message of an error with its DETAIL and CONTEXT on one line."""
    more = [] if sqlstate[:2] in _DATA else [("DETAIL", detail), ("CONTEXT", context)]
    lines = [text, *(f"{name}: {' '.join(value.split())[:_LONG]}" for name, value in more if value)]
    return "; ".join(lines)


def whole(error: psycopg.Error) -> str:
    """All that the server says of an error, but for the values of rows."""
    diag = error.diag
    return _whole(first_line(error), error.sqlstate or "", diag.message_detail or "", diag.context or "")


def sqlstate_of(result: pq.abc.PGresult) -> str:
    """Empty where the result is no error."""
    return readable(result.error_field(pq.DiagnosticField.SQLSTATE))


class Denied(Fatal):
    """The role lacks a right."""

    page = "rights"


class ErrorWords(NamedTuple):
    """How errors of a task's statements begin, before the server's own words. `again`: raised where another connection
    may succeed, or the server when it accepts writes again (`read_only`).
    """

    lost: str
    denied: str
    refused: str
    read_only: str = ""
    again: type[Retryable] = Disconnected
    hint: str = "Run `walrelay doctor`."


_UNEXPECTED = ErrorWords("the connection to PostgreSQL broke", "PostgreSQL refused", "PostgreSQL refused")


@contextmanager
def explained(words: ErrorWords, grants: Callable[[], str]) -> Iterator[None]:
    """Translates errors of the statements inside to `again`, Denied or Fatal. `grants` is called when a right was
    lacking; it returns what to paste, or an empty text.
    """
    try:
        yield
    except psycopg.Error as cause:
        raise _meaning(cause, words, grants) from cause


def translated() -> AbstractContextManager[None]:
    """Around work that asks PostgreSQL in many places, and is tried again: a connection that breaks at a question whose
    errors nobody translates is a broken connection all the same.
    """
    return explained(_UNEXPECTED, str)


def unexpected(error: Exception) -> WalrelayError | None:
    """The walrelay error for an error of psycopg's that no code expected; None for other errors."""
    return _meaning(error, _UNEXPECTED, str) if isinstance(error, psycopg.Error) else None


def _meaning(error: psycopg.Error, words: ErrorWords, grants: Callable[[], str]) -> WalrelayError:
    text = whole(error)
    match error:
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return words.again(f"{words.lost}: {text}")
        case errors.ReadOnlySqlTransaction() if words.read_only:  # hosts set it while a disk is nearly full
            return words.again(f"{words.read_only}: {text}")
        case errors.InsufficientPrivilege():
            return Denied(f"{words.denied}: {text}", hint=grants() or words.hint)
    return Fatal(f"{words.refused}: {text}", hint=words.hint, page="server")


def connection_broke(error: psycopg.OperationalError) -> Disconnected:
    return Disconnected(f"the connection to PostgreSQL broke: {first_line(error)}")


def connection_lost(error: psycopg.Error) -> bool:
    """Whether the server, or the way to it, went away. (psycopg's own classes also hold errors that no retry cures.)"""
    return error.sqlstate is None or error.sqlstate[:2] in ("08", "57")


def about_a_standby(text: str) -> bool:
    """Whether the text is about a standby that has to be ahead of the stream. The SQLSTATEs mean other things too, but
    the setting's name is the same in every language.
    """
    return "synchronized_standby_slots" in text


_AGAIN = (
    "`walrelay recover --replace` makes the publication if it is missing, then the slot again, and publishes the rows"
    " of the table that may not have been published; `--dry-run` shows them."
)


def failure(
    sqlstate: str | None, text: str, *, slot: str, publication: str, raised_in: str = "", more: str = "", said: str = ""
) -> WalrelayError:
    """The walrelay error for a server error on the replication connection. `raised_in`: the server's source file, which
    distinguishes a missing slot from a missing publication in every language. `more`: DETAIL and HINT, whose names of
    settings are not translated. `said`: the text with DETAIL and CONTEXT, for people.
    """
    said = said or text
    where = f"slot {slot!r}: {said}"
    if about_a_standby(text):  # an error only of a server that shuts down
        return NotServing(f"PostgreSQL ended the stream, which waited for a standby: {text}")
    match sqlstate:
        case "55006":  # object_in_use
            return Waiting(f"slot {slot!r} is in use by another connection; waiting for it", retry_within=1.0)
        case "42704" if raised_in != "slot.c" and (raised_in or "publication" in text):
            return Fatal(
                where,
                hint=f"The publication {publication!r} did not exist at this point of the WAL. {_AGAIN}",
                page="not-published",
            )
        case "42704":
            return slot_missing(slot)
        case "55000" if "wal_level" in text:  # as the setting is called in every language
            return Fatal(where, hint="ALTER SYSTEM SET wal_level = logical;  -- then restart PostgreSQL", page="server")
        case "55000":
            return slot_lost(slot, text)
        case "42501" if "output_plugin_libraries" in more:
            return Fatal(where, hint=f"Allow the plugin on the server: {_LIST}", page="server")
        case "42501":
            return Fatal(
                where, hint="The role needs the REPLICATION attribute: ALTER ROLE ... REPLICATION;", page="server"
            )
        case "55P03":  # lock_timeout; the relay's sessions have none
            return Fatal(
                f"slot {slot!r} was not made: it has to wait for the transactions that are open now, which do not end",
                hint="Try again later, or end them: SELECT pid, xact_start, state, query FROM pg_stat_activity"
                " WHERE backend_xid IS NOT NULL ORDER BY xact_start;",
                page="server",
            )
        case "53400":
            return Fatal(
                f"slot {slot!r} was not made: {text}",
                hint="Drop a slot that nobody needs (SELECT slot_name FROM pg_replication_slots WHERE NOT active;), or:"
                " ALTER SYSTEM SET max_replication_slots = 20;  -- then restart PostgreSQL",
                page="server",
            )
        case "58P01":
            return Fatal(
                where,
                hint="The output plugin is not installed on the server: install it (Debian and Ubuntu: apt-get install"
                " postgresql-15-wal2json, with your version), or set source.plugin to pgoutput.",
                page="server",
            )
        case "22023" | "0A000" | "42601" | "42602" | "22P05" | "22021" | "42883":
            return Fatal(
                where, hint="Run `walrelay doctor`: it looks at the server, the plugin and the settings.", page="server"
            )
    return Disconnected(f"the replication stream ended: {said}")


def is_a_standby() -> NotServing:
    return NotServing(
        "the server is a standby; a relay needs the primary (a DSN with several hosts and"
        " target_session_attrs=read-write finds it)"
    )


def slot_missing(slot: str, *, made: bool = False) -> Fatal:
    """A missing slot is never made silently: a new one starts at "now", and skips what came before. `made`: it is known
    to have existed.
    """
    if_new = "" if made else "If walrelay never ran here: `walrelay init`. If it did, "
    was = "The slot was" if made else "the slot was"
    return Fatal(
        f"replication slot {slot!r} does not exist",
        hint=f"{if_new}{was} dropped, or lost in a failover to a server that did not have it, and events committed"
        " since the last confirmed position have not been published. They are still in the outbox table: `walrelay"
        " recover` says which, publishes them and makes the slot again (`--dry-run` changes nothing).",
        page="slot-lost",
    )


def slot_lost(slot: str, why: str) -> Fatal:
    return Fatal(
        f"replication slot {slot!r} cannot be read any more: {why}",
        hint="The server removed WAL that the slot still needed (max_slot_wal_keep_size,"
        " idle_replication_slot_timeout or a conflict), so events committed since its confirmed position can no longer"
        " be streamed. They are still in the outbox table: `walrelay recover` says which, publishes them and makes the"
        " slot again (`--dry-run` changes nothing). Raise max_slot_wal_keep_size so that it does not happen again.",
        page="slot-lost",
    )


def of(error: psycopg.Error, *, slot: str, publication: str) -> WalrelayError:
    diag, text = error.diag, first_line(error)
    more, file = f"{diag.message_detail} {diag.message_hint}", diag.source_file or ""
    return failure(
        error.sqlstate, text, slot=slot, publication=publication, raised_in=file, more=more, said=whole(error)
    )


def of_result(result: pq.abc.PGresult, *, slot: str, publication: str, options: Options = ()) -> WalrelayError:
    """`options`: the output plugin's."""
    detail, hint, context, file = (
        readable(result.error_field(each))
        for each in (
            pq.DiagnosticField.MESSAGE_DETAIL,
            pq.DiagnosticField.MESSAGE_HINT,
            pq.DiagnosticField.CONTEXT,
            pq.DiagnosticField.SOURCE_FILE,
        )
    )
    sqlstate, text = sqlstate_of(result), server_message(result)
    said = _whole(text, sqlstate, detail, context)
    more = f"{detail} {hint}"
    error = failure(sqlstate, text, slot=slot, publication=publication, raised_in=file, more=more, said=said)
    # An object of the server has 1 GB at most. Neither text is translated, and the second depends on the version.
    if "invalid memory alloc request size" in text or file == "stringinfo.c":
        error.hint = _smaller(options)
    return error


def source_file(result: pq.abc.PGresult) -> str:
    """The server's source file that an error or a notice is of: the same in every language."""
    return readable(result.error_field(pq.DiagnosticField.SOURCE_FILE))


def _smaller(options: Options) -> str:
    """The setting by which the server can decode what was too large for it."""
    if ("format-version", "1") in options:
        return "source.wal2json_format: 2; with 1 a whole transaction is one message, of 1 GB at most"
    if ("proto_version", "1") in options and ("binary", "true") not in options:
        return "source.binary: true, and columns of types that are read in it; bytes in text take twice their room"
    return "A row has 1 GB at most on its way out of the server, and this one has more."


def publication_skipped(publication: str, text: str) -> Fatal:
    """Since PostgreSQL 18 a publication that does not exist at a point of the WAL is skipped with a warning."""
    return Fatal(
        f"PostgreSQL skips the publication: {text}",
        hint=f"The publication {publication!r} did not exist at this point of the WAL, so rows may be missing from the"
        f" stream; nothing past it was confirmed. {_AGAIN}",
        page="not-published",
    )
