"""The outbox changes while it is read: rows mean what they meant when they were committed."""

import pytest

from tests.integration.relaying.harness import Outbox, header
from walrelay.errors import Undecodable


def test_columns_come_and_go_while_the_relay_runs(outbox: Outbox) -> None:
    execute = outbox.database.execute
    with outbox.relay() as relay:
        outbox.write(1)
        execute("ALTER TABLE outbox ADD note text DEFAULT 'added'")
        outbox.write(2)
        execute("ALTER TABLE outbox DROP created_at, DROP tenant_id, DROP note")  # nobody reads these
        outbox.write(3)
        execute("ALTER TABLE outbox ADD COLUMN created_at int")
        outbox.write(4)
        assert outbox.values(relay) == [b"1", b"2", b"3", b"4"]


def test_a_backlog_is_read_with_the_columns_it_was_written_with(outbox: Outbox) -> None:
    execute = outbox.database.execute
    outbox.write(1)
    execute("ALTER TABLE outbox ADD first int, DROP created_at")
    outbox.write(2)
    execute("ALTER TABLE outbox ALTER id TYPE text, ALTER payload TYPE text")
    outbox.write(3)
    execute("ALTER TABLE outbox ADD swapped jsonb")
    execute("ALTER TABLE outbox RENAME payload TO gone; ALTER TABLE outbox RENAME swapped TO payload")
    outbox.write(4)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1", b"2", b"3", b"4"]


def test_a_type_that_changes_while_the_relay_runs_is_read_by_its_new_name(outbox: Outbox) -> None:
    with outbox.relay() as relay:
        outbox.write(1)
        assert outbox.values(relay) == [b"1"]
        outbox.database.execute("ALTER TABLE outbox ALTER payload TYPE bytea USING '\\x00ff', ALTER id TYPE text")
        outbox.database.execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload) VALUES ('order', '2', 't', '\\x00fe')"
        )
        assert outbox.values(relay) == [b"1", b"\x00\xfe"]


def test_a_type_that_is_not_read_in_binary_stops_such_a_relay_and_the_next_one_reads_it(outbox: Outbox) -> None:
    with outbox.relay() as relay:
        outbox.write(1)
        assert outbox.values(relay) == [b"1"]
        outbox.database.execute("ALTER TABLE outbox ALTER aggregate_id TYPE numeric USING 0")
        outbox.write(2)
        if outbox.way == "binary":  # only text mode reads any type
            error = relay.failure()
            assert isinstance(error, Undecodable)
            assert "'aggregate_id' of public.outbox" in str(error)
            assert "source.binary" in error.hint
    with outbox.relay() as relay:
        messages = outbox.messages(relay)
    assert [(message.key, message.value) for message in messages] == [(b"1", b"1"), (b"2", b"2")]


def test_a_renamed_column_stops_the_relay_and_new_settings_lose_nothing(outbox: Outbox) -> None:
    with outbox.relay() as relay:
        outbox.write(1)
        assert outbox.values(relay) == [b"1"]
        before = outbox.confirmed
        outbox.database.execute("ALTER TABLE outbox RENAME payload TO body")
        outbox.database.execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, body) VALUES ('order', '2', 't', '2')"
        )
        error = relay.failure()
    assert isinstance(error, Undecodable)
    for told in ("public.outbox", "'payload'", "body", "at "):
        assert told in str(error)
    assert "outbox.columns.payload" in error.hint
    assert outbox.confirmed >= before
    renamed = outbox.under(outbox={"columns": {"payload": "body"}})
    with renamed.relay() as relay:
        assert renamed.values(relay) == [b"1", b"2"]


def test_what_came_before_a_row_that_cannot_be_read_is_confirmed(outbox: Outbox) -> None:
    """Else neither the old settings nor the new ones would ever get past both."""
    outbox.write(1)
    outbox.database.execute("ALTER TABLE outbox RENAME payload TO body")
    outbox.database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, body) VALUES ('order', '2', 't', '2')"
    )
    assert isinstance(outbox.failure(), Undecodable)
    assert [message.value for message in outbox.broker.durable] == [b"1"]
    renamed = outbox.under(outbox={"columns": {"payload": "body"}})
    with renamed.relay() as relay:
        assert renamed.values(relay) == [b"1", b"2"]


@pytest.mark.parametrize("role", ["id", "payload", "headers", "aggregate_type"])
def test_a_column_that_was_never_there_stops_the_relay(outbox: Outbox, role: str) -> None:
    outbox.write(1)
    error = outbox.under(outbox={"columns": {role: "elsewhere"}}).failure()
    assert isinstance(error, Undecodable)
    assert f"'elsewhere' for the role {role}" in str(error)
    with outbox.relay() as relay:  # the position may have moved, over what the server did before the row
        assert outbox.values(relay) == [b"1"]


def test_a_row_whose_id_is_null_stops_the_relay(outbox: Outbox) -> None:
    outbox.database.execute("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey, ALTER id DROP NOT NULL")
    outbox.write(1)
    outbox.database.execute(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, type) VALUES (NULL, 'order', '2', 't')"
    )
    error = outbox.failure()
    assert isinstance(error, Undecodable)
    assert "NULL" in str(error)


def test_a_row_that_cannot_be_routed_names_itself(outbox: Outbox) -> None:
    outbox.write(1)
    nowhere = outbox.under(route={"topic": "events.{tenant_id}"})
    error = nowhere.failure()
    ((identity,),) = outbox.database.execute("SELECT id::text FROM outbox")
    assert str(identity) in str(error)
    with outbox.relay() as relay:
        (message,) = outbox.messages(relay)
    assert header(message, "id") == str(identity).encode()
