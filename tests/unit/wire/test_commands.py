"""The texts of replication commands: names are quoted, since they cannot be parameters."""

import pytest

from walrelay.identifiers import identifier
from walrelay.lsn import LSN, ZERO
from walrelay.wire.commands import create_slot, create_temporary_slot, literal, pgoutput_options, start_replication


@pytest.mark.parametrize(
    ("name", "quoted"), [("outbox", '"outbox"'), ('a"b', '"a""b"'), ("Größe 'x'\\", "\"Größe 'x'\\\""), ("", '""')]
)
def test_an_identifier_doubles_its_quotes(name: str, quoted: str) -> None:
    assert identifier(name) == quoted


@pytest.mark.parametrize(("text", "quoted"), [("it's", "'it''s'"), ("a\\b", "'a\\b'"), ('"x"', "'\"x\"'"), ("", "''")])
def test_a_literal_doubles_its_quotes_and_keeps_its_backslashes(text: str, quoted: str) -> None:
    assert literal(text) == quoted


@pytest.mark.parametrize("quote", [identifier, literal])
def test_a_zero_byte_ends_no_command(quote: object) -> None:
    assert callable(quote)
    with pytest.raises(ValueError, match="zero byte"):
        quote("a\0b")


def test_start_replication_names_slot_position_and_options() -> None:
    command = start_replication("my slot", LSN.parse("16/B374D848"), [("proto_version", "1"), ("x", "it's")])
    assert command == ("START_REPLICATION SLOT \"my slot\" LOGICAL 16/B374D848 (\"proto_version\" '1', \"x\" 'it''s')")


def test_zero_is_the_slots_own_position() -> None:
    assert " LOGICAL 0/0 (" in start_replication("s", ZERO, [("a", "b")])


def test_a_temporary_slot_exports_no_snapshot() -> None:
    assert create_temporary_slot("s", "pgoutput") == (
        'CREATE_REPLICATION_SLOT "s" TEMPORARY LOGICAL "pgoutput" NOEXPORT_SNAPSHOT'
    )


def test_pgoutput_is_asked_for_committed_transactions_only_and_for_logical_messages() -> None:
    """Version 1 never streams what may still roll back (guarantees A30)."""
    options = [("proto_version", "1"), ("publication_names", '"Out,box"'), ("messages", "true")]
    assert pgoutput_options("Out,box", binary=False) == options
    assert pgoutput_options("Out,box", binary=True) == [*options, ("binary", "true")]


def test_a_slot_that_exports_its_snapshot_is_asked_for_in_words_that_the_server_knows() -> None:
    made = 'CREATE_REPLICATION_SLOT "a""b" LOGICAL "pgoutput"'
    assert create_slot('a"b', "pgoutput", failover=False) == f"{made} EXPORT_SNAPSHOT"
    assert create_slot('a"b', "pgoutput", failover=True) == f"{made} (SNAPSHOT 'export', FAILOVER)"
