"""Outbox records without a table: which logical messages are records, and which are not."""

import pytest

from tests.integration.relaying.harness import Outbox, header, position
from tests.integration.relaying.ways import PGOUTPUT
from walrelay.errors import Undecodable

EVENT = '{"id": "m-1", "aggregate_type": "order", "aggregate_id": 42, "type": null, "payload": {"b" : 1.50,"a":[ ]}}'


def emit(outbox: Outbox, content: str, *, prefix: str = "walrelay", transactional: bool = True) -> None:
    outbox.database.execute("SELECT pg_logical_emit_message(%s, %s, %s)", [transactional, prefix, content])


def flush_wal(outbox: Outbox) -> None:
    """A non-transactional message is not written out until something is committed."""
    outbox.database.execute("CREATE TABLE IF NOT EXISTS flush (); DROP TABLE flush")


def test_a_transactional_message_is_a_record_with_its_payload_verbatim(outbox: Outbox) -> None:
    emit(outbox, EVENT)
    with outbox.relay() as relay:
        (message,) = outbox.messages(relay)
    assert (message.topic, message.key, message.value) == ("outbox.event.order", b"42", b'{"b" : 1.50,"a":[ ]}')
    assert [name for name, _ in message.headers] == ["id", "position"]
    assert header(message, "id") == b"m-1"


def test_rows_and_messages_of_a_transaction_arrive_in_the_order_they_were_written(outbox: Outbox) -> None:
    with outbox.database.connect() as connection, connection.transaction():
        outbox.write(1, connection=connection)
        connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [EVENT])
        outbox.write(3, connection=connection)
    with outbox.relay() as relay:
        messages = outbox.messages(relay)
    assert [message.value for message in messages] == [b"1", b'{"b" : 1.50,"a":[ ]}', b"3"]
    assert [position(message)[1] for message in messages] == [0, 1, 2]
    assert len({position(message)[0] for message in messages}) == 1


@pytest.mark.parametrize("transactional", [True, False])
def test_messages_with_another_prefix_are_nobodys_business(outbox: Outbox, transactional: bool) -> None:
    for prefix in ("", "walrelay2", "Walrelay", "heartbeat"):
        emit(outbox, "no JSON at all", prefix=prefix, transactional=transactional)
    outbox.write(1)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]


def test_a_message_that_was_rolled_back_never_arrives(outbox: Outbox) -> None:
    with outbox.database.connect() as connection:
        with connection.transaction(force_rollback=True):
            connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [EVENT])
        with connection.transaction():
            outbox.write(1, connection=connection)
            with connection.transaction(force_rollback=True):  # a savepoint
                connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [EVENT])
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]


def test_a_non_transactional_message_with_our_prefix_stops_the_relay(outbox: Outbox) -> None:
    outbox.write(1)
    emit(outbox, EVENT, transactional=False)
    flush_wal(outbox)
    error = outbox.failure()
    assert isinstance(error, Undecodable)
    assert "non-transactional" in str(error)
    assert "outbox.messages.non_transactional" in error.hint


def test_a_non_transactional_message_is_skipped_where_the_settings_say_so(outbox: Outbox) -> None:
    outbox.write(1)
    emit(outbox, EVENT, transactional=False)
    outbox.write(2)
    skipping = outbox.under(outbox={"messages": {"non_transactional": "skip"}})
    with skipping.relay() as relay:
        assert skipping.values(relay) == [b"1", b"2"]


@pytest.mark.parametrize("content", ["", "[]", '{"id": "1"}', '{"id": "1", "payload": 1, "colour": 2}', '{"id": "1",}'])
def test_a_message_that_is_no_record_stops_the_relay_at_its_position(outbox: Outbox, content: str) -> None:
    emit(outbox, content)
    error = outbox.failure()
    assert isinstance(error, Undecodable)
    assert "/" in str(error)
    assert str(outbox.failure()) == str(error), "it must not have been skipped"


def test_what_stands_behind_a_nul_is_refused_by_pgoutput_and_not_sent_by_wal2json(outbox: Outbox) -> None:
    content = b'{"id": "m-1", "payload": 1, "topic": "t"}\0rest'
    outbox.database.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s::bytea)", [content])
    if outbox.way in PGOUTPUT:
        assert "there is more text after the JSON object" in str(outbox.failure())
    else:
        with outbox.relay() as relay:
            assert outbox.values(relay) == [b"1"]


def test_in_a_read_only_transaction_a_message_is_an_event_if_it_commits_and_only_then(outbox: Outbox) -> None:
    """PostgreSQL lets them be written there; nothing is lost or made up by it."""
    with outbox.database.connect(autocommit=False) as connection:
        connection.execute("SET TRANSACTION READ ONLY")
        connection.execute("SELECT walrelay.emit_message('order', '1', 'Read', '\"rolled back\"')")
        connection.rollback()
        connection.execute("SET TRANSACTION READ ONLY")
        connection.execute("SELECT walrelay.emit_message('order', '1', 'Read', '\"committed\"')")
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b'"committed"']


def test_no_message_is_a_record_where_the_settings_name_no_prefix(outbox: Outbox) -> None:
    emit(outbox, EVENT)
    outbox.write(1)
    tables_only = outbox.under(outbox={"messages": {"prefix": None}})
    with tables_only.relay() as relay:
        relay.wait_until(lambda: tables_only.broker.durable, "the row")
    assert [message.value for message in tables_only.broker.durable] == [b"1"]
