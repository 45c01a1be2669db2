"""SQLAlchemy's automatic mode: events go the way of their object's attributes."""

import pytest
from sqlalchemy.orm import (
    Session,
    sessionmaker,
)

from tests.integration.outbox.orders import Order, made_order, written
from tests.servers.database import Database
from walrelay.outbox import Event, EventTooLarge


def test_a_rollback_takes_the_events_of_a_known_object_with_its_attributes(
    sessions: sessionmaker[Session], database: Database
) -> None:
    id_ = made_order(sessions)
    with sessions() as session:
        order = session.get_one(Order, id_)
        order.did("flushed")
        session.flush()
        order.did("not flushed")
        session.rollback()
        assert (order.state, order.recorded_events) == ("new", ())
        order.did("second try")
        session.commit()
    assert written(database) == [(str(id_), "second try")]


def test_a_new_object_keeps_its_events_over_a_rollback_as_it_keeps_its_attributes(
    sessions: sessionmaker[Session], database: Database
) -> None:
    order = Order(id=7)
    order.did("placed")
    with sessions() as session:
        session.add(order)
        session.flush()
        order.did("paid")
        session.rollback()
        assert (order.state, len(order.recorded_events)) == ("paid", 2)
        session.commit()
        assert written(database) == [], "it was not added again"
        session.add(order)
        session.commit()
    assert written(database) == [("7", "placed"), ("7", "paid")]
    assert order.recorded_events == ()


def test_a_rollback_to_a_savepoint_takes_what_was_recorded_inside_and_nothing_else(
    sessions: sessionmaker[Session], database: Database
) -> None:
    id_ = made_order(sessions)
    with sessions.begin() as session:
        order = session.get_one(Order, id_)
        order.did("before")
        savepoint = session.begin_nested()
        order.did("inside, flushed")
        session.flush()
        order.did("inside, not flushed")
        savepoint.rollback()
        assert (order.state, len(order.recorded_events)) == ("before", 1)
        with session.begin_nested():
            order.did("kept")
            with session.begin_nested():
                order.did("kept too")
        with pytest.raises(ZeroDivisionError), session.begin_nested():  # noqa: PT012
            with session.begin_nested():
                order.did("released into what is rolled back")
            raise ZeroDivisionError
        order.did("after")
    assert [what for _, what in written(database)] == ["before", "kept", "kept too", "after"]
    assert order.recorded_events == ()


def test_a_savepoint_that_is_released_is_no_commit(sessions: sessionmaker[Session], database: Database) -> None:
    order = Order(id=7)
    with sessions() as session:
        session.add(order)
        with session.begin_nested():
            order.did("placed")
        session.rollback()
        session.add(order)
        session.commit()
    assert written(database) == [("7", "placed")]


def test_a_session_closed_without_a_commit_leaves_no_event_for_another(
    sessions: sessionmaker[Session], database: Database
) -> None:
    id_ = made_order(sessions)
    with sessions() as session:
        order = session.get_one(Order, id_)
        order.did("never")
        session.flush()
    assert order.recorded_events == ()
    with sessions.begin() as session:
        session.add(order)
        order.did("committed")
    assert written(database) == [(str(id_), "committed")]


def test_a_flush_that_fails_leaves_no_event(sessions: sessionmaker[Session], database: Database) -> None:
    id_ = made_order(sessions)
    with sessions() as session:
        order = session.get_one(Order, id_)
        order.did("fine")
        session.flush()
        order.record(Event(aggregate_type="order", aggregate_id=id_, type="huge", payload="x" * 2_000_000))
        with pytest.raises(EventTooLarge):
            session.flush()
        session.rollback()
        assert order.recorded_events == ()
        order.did("then")
        session.commit()
    assert written(database) == [(str(id_), "then")]


def test_what_is_expired_takes_its_events_with_its_changes(sessions: sessionmaker[Session], database: Database) -> None:
    id_ = made_order(sessions)
    with sessions.begin() as session:
        order = session.get_one(Order, id_)
        order.did("flushed")
        session.flush()
        order.did("never")
        session.expire(order)
        assert order.state == "flushed"
        order.did("paid")
    assert [what for _, what in written(database)] == ["flushed", "paid"]
