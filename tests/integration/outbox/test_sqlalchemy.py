"""SQLAlchemy's automatic mode: an event is committed if and only if what it tells of its object is."""

import asyncio
import gc

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import (
    Session,
    scoped_session,
    sessionmaker,
)
from sqlalchemy.pool import NullPool

from tests.integration.libraries import url
from tests.integration.outbox.orders import Line, Order, made_order, written
from tests.servers.database import Database, Postgres
from walrelay.outbox import Event, Outbox
from walrelay.outbox.sqlalchemy import UnitOfWork, write_recorded


def test_events_are_written_in_the_flush_and_cleared_by_the_commit_only(
    sessions: sessionmaker[Session], database: Database
) -> None:
    order = Order()
    order.did("placed")
    with sessions() as session:
        session.add(order)
        order.did("paid")
        session.flush()
        assert session.scalar(text("SELECT count(*) FROM outbox")) == 2
        assert len(order.recorded_events) == 2, "a flush is no commit"
        session.flush()
        order.did("shipped")
        session.commit()
        assert not order.recorded_events
        session.commit()
    assert written(database) == [("1", "placed"), ("1", "paid"), ("1", "shipped")]
    assert database.execute("SELECT state FROM orders") == [("shipped",)]


def test_events_of_several_aggregates_keep_the_order_of_recording(
    sessions: sessionmaker[Session], database: Database
) -> None:
    with sessions.begin() as session:
        first, second = Order(id=1), Order(id=2)
        session.add_all([first, second])
        second.did("a")
        first.did("b")
        second.did("c")
    assert written(database) == [("2", "a"), ("1", "b"), ("2", "c")]


def test_an_object_without_a_change_is_held_until_its_event_is_written(
    sessions: sessionmaker[Session], database: Database
) -> None:
    id_ = made_order(sessions)
    with sessions.begin() as session:
        session.get_one(Order, id_).record(Event(aggregate_type="order", aggregate_id=id_, type="looked at"))
        gc.collect()  # an identity map holds weakly what has not changed
    assert written(database) == [(str(id_), "looked at")]


def test_what_a_listener_records_after_the_flush_is_in_the_next(
    sessions: sessionmaker[Session], database: Database
) -> None:
    def react(session: Session, _: object) -> None:
        for each in {*session.new, *session.dirty}:
            if each.state == "placed":
                each.did("paid")

    sqlalchemy_event.listen(sessions, "after_flush", react)
    with sessions.begin() as session:
        order = Order(id=1)
        order.did("placed")
        session.add(order)
        session.flush()
        del order
        gc.collect()
    assert [what for _, what in written(database)] == ["placed", "paid"]


def test_objects_are_told_apart_however_they_compare(sessions: sessionmaker[Session], database: Database) -> None:
    """A mapped dataclass has no hash."""
    with sessions.begin() as session:
        for what in ("a", "b"):
            line = Line(name="same")
            line.record(Event(aggregate_type="line", aggregate_id=0, type=what))
            session.add(line)
    assert [what for _, what in written(database)] == ["a", "b"]


def test_a_deleted_object_tells_of_it(sessions: sessionmaker[Session], database: Database) -> None:
    id_ = made_order(sessions)
    with sessions.begin() as session:
        order = session.get_one(Order, id_)
        order.did("cancelled")
        session.delete(order)
    assert written(database) == [(str(id_), "cancelled")]


def test_a_detached_object_records_nothing(sessions: sessionmaker[Session]) -> None:
    id_ = made_order(sessions)
    with sessions() as session:
        order = session.get_one(Order, id_)
    with pytest.raises(RuntimeError, match="is detached: add it to a session"):
        order.did("lost by Session.merge")


def test_an_event_goes_to_the_database_of_its_object(
    sessions: sessionmaker[Session], database: Database, postgres: Postgres
) -> None:
    other = postgres.create_database()
    engines = [create_engine(url(each.dsn, "psycopg"), poolclass=NullPool) for each in (database, other)]
    try:
        for default in (None, engines[1]):
            several = sessionmaker(default, binds={Order: engines[0]})
            write_recorded(several, Outbox())
            with several.begin() as session:
                order = Order()
                order.did("placed")
                session.add(order)
    finally:
        other.drop()
    assert written(database) == [("1", "placed"), ("2", "placed")]


def test_a_scoped_session_writes_what_was_recorded(database: Database, sessions: sessionmaker[Session]) -> None:
    engine = create_engine(url(database.dsn, "psycopg"), poolclass=NullPool)
    scoped = scoped_session(sessionmaker(engine))
    write_recorded(scoped, Outbox())
    order = Order(id=1)
    order.did("placed")
    scoped.add(order)
    Outbox().emit(scoped, Event(aggregate_type="shop", aggregate_id="s", type="busy"))
    scoped.commit()
    scoped.remove()
    assert sorted(written(database)) == [("1", "placed"), ("s", "busy")]


def test_a_unit_of_work_commits_both_or_neither(sessions: sessionmaker[Session], database: Database) -> None:
    with UnitOfWork(sessions, Outbox()) as work:
        order = Order(id=1)
        order.did("placed")
        work.session.add(order)
        work.emit(Event(aggregate_type="shop", aggregate_id="s", type="busy"))
    with pytest.raises(ZeroDivisionError), UnitOfWork(sessions, Outbox()) as work:  # noqa: PT012
        work.session.get_one(Order, 1).did("paid")
        work.session.flush()
        raise ZeroDivisionError
    assert sorted(written(database)) == [("1", "placed"), ("s", "busy")]
    assert database.execute("SELECT state FROM orders") == [("placed",)]


def test_a_unit_of_work_writes_what_was_recorded_whatever_its_sessions_do(
    sessions: sessionmaker[Session], database: Database
) -> None:
    engine = create_engine(url(database.dsn, "psycopg"), poolclass=NullPool)
    for number, made in enumerate([sessionmaker(engine), sessions], 1):
        with UnitOfWork(made, Outbox()) as work:
            order = Order(id=number)
            order.did("placed")
            work.session.add(order)

    async def wait() -> None:
        asynchronous = create_async_engine(url(database.dsn, "psycopg"), poolclass=NullPool)
        async with UnitOfWork(async_sessionmaker(asynchronous), Outbox()) as work:
            order = Order(id=3)
            order.did("placed")
            work.session.add(order)

    asyncio.run(wait())
    assert [id_ for id_, _ in written(database)] == ["1", "2", "3"]


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_async_sessions_write_what_was_recorded(
    driver: str, sessions: sessionmaker[Session], database: Database
) -> None:
    engine = create_async_engine(url(database.dsn, driver), poolclass=NullPool)
    ours, others = async_sessionmaker(engine), async_sessionmaker(engine)
    write_recorded(ours, Outbox())

    async def work() -> None:
        async with UnitOfWork(ours, Outbox()) as unit:
            order = Order(id=1)
            order.did("placed")
            unit.session.add(order)
            await unit.emit(Event(aggregate_type="shop", aggregate_id="s", type="busy"))
        async with ours() as session:
            order = await session.get_one(Order, 1)
            order.did("undone")
            await session.flush()
            await session.rollback()
            await session.refresh(order)
            order.did("paid")
            await session.commit()
            assert order.recorded_events == ()
        await nobody_elses(others)

    async def nobody_elses(others: async_sessionmaker[AsyncSession]) -> None:
        with pytest.raises(RuntimeError, match="Order 1 has recorded events, and its session writes none"):
            async with others.begin() as session:
                (await session.get_one(Order, 1)).did("of another sessionmaker")

    asyncio.run(work())
    assert sorted(written(database)) == [("1", "paid"), ("1", "placed"), ("s", "busy")]
    assert database.execute("SELECT state FROM orders") == [("paid",)]
