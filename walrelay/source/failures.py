"""What PostgreSQL's errors mean for the relay: by SQLSTATE, never by text, which is translated."""

import psycopg

from walrelay.errors import Disconnected, Fatal, Retryable, WalrelayError

_LIST = "ALTER SYSTEM SET output_plugin_libraries = pgoutput, test_decoding, wal2json; SELECT pg_reload_conf();"


def first_line(error: BaseException) -> str:
    """The error's text without the server's further lines."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def of_a_standby(text: str) -> bool:
    """Whether the text is about a standby that has to be ahead of the stream: its SQLSTATEs stand for graver things
    too, but the setting's name is in it in every language.
    """
    return "synchronized_standby_slots" in text


def failure(sqlstate: str | None, text: str, *, slot: str, publication: str) -> WalrelayError:
    """The walrelay error for one that the server gave on the replication connection."""
    where = f"slot {slot!r}: {text}"
    if of_a_standby(text):  # an error only of a server that shuts down
        return Retryable(f"PostgreSQL ended the stream, which waited for a standby: {text}")
    match sqlstate:
        case "55006":  # object_in_use
            return Retryable(f"slot {slot!r} is in use by another connection; waiting for it", retry_within=1.0)
        case "42704" if "publication" in text:
            return Fatal(
                where,
                hint=f"The publication {publication!r} did not exist at this point of the WAL: it must be created"
                " before the slot. If events are in the table that were never published, keep them in mind; then"
                f" `walrelay drop` and `walrelay init` make both anew, in the right order.",
            )
        case "42704":
            return slot_missing(slot)
        case "55000":
            return slot_lost(slot, text)
        case "42501" if "output plugin" in text or "output_plugin_libraries" in text:
            return Fatal(where, hint=f"Allow the plugin on the server: {_LIST}")
        case "42501":
            return Fatal(where, hint="The role needs the REPLICATION attribute: ALTER ROLE ... REPLICATION;")
        case "55P03":  # lock_timeout; the relay's sessions have none
            return Fatal(
                f"slot {slot!r} was not made: it begins behind the transactions that are open now, and they do not end",
                hint="Try again later, or end them: SELECT pid, xact_start, state, query FROM pg_stat_activity"
                " WHERE backend_xid IS NOT NULL ORDER BY xact_start;",
            )
        case "53400":
            return Fatal(
                f"slot {slot!r} was not made: {text}",
                hint="Drop a slot that nobody needs, or raise max_replication_slots (which needs a restart).",
            )
        case "22023" | "0A000" | "42601" | "42602" | "22P05" | "22021" | "58P01" | "42883":
            return Fatal(where, hint="Run `walrelay doctor`: it looks at the server, the plugin and the settings.")
    return Disconnected(f"the replication stream ended: {text}")


def slot_missing(slot: str) -> Fatal:
    """The slot is not there. It is never made silently: a new slot starts at "now", and what came before is skipped."""
    return Fatal(
        f"replication slot {slot!r} does not exist",
        hint="If walrelay never ran here: `walrelay init`. If it did, the slot was dropped, or lost in a failover to a"
        " server that did not have it, and events committed since the last confirmed position have not been"
        " published. They are still in the outbox table: `walrelay recover` says which, publishes them and makes the"
        " slot anew (`--dry-run` changes nothing).",
    )


def slot_lost(slot: str, why: str) -> Fatal:
    """The slot is there and can never be read again."""
    return Fatal(
        f"replication slot {slot!r} cannot be read any more: {why}",
        hint="The server removed WAL that the slot still needed (max_slot_wal_keep_size,"
        " idle_replication_slot_timeout or a conflict), so events committed since its confirmed position can no longer"
        " be streamed. They are still in the outbox table: `walrelay recover` says which, publishes them and makes the"
        " slot anew (`--dry-run` changes nothing). Raise max_slot_wal_keep_size so that it does not happen again.",
    )


def of(error: psycopg.Error, *, slot: str, publication: str) -> WalrelayError:
    """The walrelay error for psycopg's."""
    return failure(error.sqlstate, first_line(error), slot=slot, publication=publication)
