"""What PostgreSQL's errors mean: wait and try again, or call an operator."""

import psycopg
import pytest

from walrelay.errors import Fatal, Retryable, WalrelayError
from walrelay.postgres.failures import (
    Denied,
    ErrorWords,
    explained,
    failure,
    first_line,
    of,
    readable,
    slot_lost,
    slot_missing,
)


def meaning(sqlstate: str | None, text: str = "something") -> WalrelayError:
    return failure(sqlstate, text, slot="orders", publication="outbox")


def test_a_slot_in_use_is_waited_for_and_soon_taken_over() -> None:
    error = meaning("55006")
    assert isinstance(error, Retryable)
    assert error.retry_within == 1.0
    assert "'orders' is in use" in str(error)


@pytest.mark.parametrize("sqlstate", ["57P01", "57P03", "08006", "53300", "XX000", "28P01", None])
def test_what_may_pass_is_retried_and_keeps_its_text(sqlstate: str | None) -> None:
    error = meaning(sqlstate, "terminating connection")
    assert isinstance(error, Retryable)
    assert "terminating connection" in str(error)


@pytest.mark.parametrize("sqlstate", ["55000", "22023"])
def test_a_standby_that_is_away_is_no_lost_slot(sqlstate: str) -> None:
    # from a server in another language; both SQLSTATEs are final in other cases
    text = "el slot de replicación «standby_1» especificado en «synchronized_standby_slots» no tiene active_pid"
    error = meaning(sqlstate, text)
    assert isinstance(error, Retryable)
    assert "waited for a standby" in str(error)


@pytest.mark.parametrize(
    ("sqlstate", "text", "says", "hint"),
    [
        ("42704", 'publication "outbox" does not exist', "publication", "walrelay recover --replace"),
        ("42704", 'replication slot "orders" does not exist', "does not exist", "walrelay init"),
        ("55000", "exceeded the maximum reserved size", "maximum reserved size", "max_slot_wal_keep_size"),
        ("42501", "must be superuser or replication role", "must be", "REPLICATION"),
        ("22023", "unknown option", "unknown option", "walrelay doctor"),
        ("0A000", "client sent proto_version=9", "proto_version", "walrelay doctor"),
        ("58P01", "could not access file", "could not", "not installed on the server"),
        ("55000", "logical decoding requires wal_level >= logical", "wal_level", "SET wal_level = logical;"),
    ],
)
def test_what_an_operator_must_mend_is_fatal_and_says_how(sqlstate: str, text: str, says: str, hint: str) -> None:
    error = meaning(sqlstate, text)
    assert isinstance(error, Fatal)
    assert says in str(error)
    assert hint in error.hint


def test_a_publication_that_is_missing_is_told_from_a_slot_in_every_language() -> None:
    """By the file of the server's source: the word is translated, and the slot may be called like the publication."""
    for text, file, hint in [
        ("Publikation »orders« existiert nicht", "lsyscache.c", "walrelay recover --replace"),
        ("Replikations-Slot »publication« existiert nicht", "slot.c", "walrelay init"),
    ]:
        error = failure("42704", text, slot="orders", publication="orders", raised_in=file)
        assert isinstance(error, Fatal)
        assert hint in error.hint


def test_a_plugin_that_is_not_allowed_is_told_from_a_role_that_may_not_replicate_in_every_language() -> None:
    """By the setting that DETAIL and HINT name."""
    for text, more, hint in [
        ("Bibliothek »wal2json« darf nicht ...", "... »output_plugin_libraries« ...", "ALTER SYSTEM SET output_plugin"),
        ("nur Superuser und Replikationsrollen können Replikations-Slots verwenden", "", "REPLICATION"),
        ("output plugin wal2json: nur Superuser", "None None", "REPLICATION"),
    ]:
        error = failure("42501", text, slot="orders", publication="outbox", more=more)
        assert isinstance(error, Fatal)
        assert hint in error.hint


def test_what_a_server_says_in_an_unknown_encoding_can_be_shown() -> None:
    assert readable(b"Sch\xfcssel") == "Sch\ufffdssel"
    assert readable(None) == ""


def test_what_to_do_never_hides_that_events_may_be_missing() -> None:
    for error in (slot_missing("orders"), slot_lost("orders", "why")):
        assert "still in the outbox table" in error.hint
        assert "'orders'" in str(error)


def test_the_first_line_of_an_error_is_enough() -> None:
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError("\n  \n")) == first_line(ValueError()) == "ValueError"


def test_psycopgs_errors_mean_what_their_sqlstate_does() -> None:
    error = of(psycopg.errors.ObjectInUse("slot is active\nDETAIL"), slot="orders", publication="outbox")
    assert isinstance(error, Retryable)
    assert error.retry_within == 1.0


@pytest.mark.parametrize(
    ("error", "kind", "says", "hint"),
    [
        (psycopg.OperationalError, Retryable, "lost: why", ""),
        (psycopg.InterfaceError, Retryable, "lost: why", ""),
        (psycopg.errors.ReadOnlySqlTransaction, Retryable, "read only: why", ""),
        (psycopg.errors.InsufficientPrivilege, Denied, "denied: why", "GRANT SELECT ON walrelay.slots TO relay;"),
        (psycopg.errors.UndefinedTable, Fatal, "refused: why", "Run `walrelay doctor`."),
    ],
)
def test_errors_of_a_tasks_statements_are_told_in_its_words_by_consequence(
    error: type[psycopg.Error], kind: type[WalrelayError], says: str, hint: str
) -> None:
    words = ErrorWords("lost", "denied", "refused", "read only", again=Retryable)
    with pytest.raises(WalrelayError) as caught, explained(words, lambda: "GRANT SELECT ON walrelay.slots TO relay;"):
        raise error("why\nDETAIL")
    assert (type(caught.value), str(caught.value), caught.value.hint) == (kind, says, hint)


def test_without_words_for_it_no_retry_is_made_where_nothing_may_be_written() -> None:
    with pytest.raises(Fatal, match="refused: why"), explained(ErrorWords("lost", "denied", "refused"), str):
        raise psycopg.errors.ReadOnlySqlTransaction("why")
