"""SQLAlchemy's automatic mode: objects that are collected, deleted, read again, copied, or many."""

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import ForeignKey, create_engine, select, text, update
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.ext.horizontal_shard import ShardedSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, sessionmaker
from sqlalchemy.pool import NullPool

from tests.integration.libraries import url
from tests.integration.outbox.orders import Order, made_order, written
from tests.servers.database import Database, Postgres
from walrelay.outbox import Event, Outbox
from walrelay.outbox.sqlalchemy import RecordsEvents, UnitOfWork, write_recorded


class Base(DeclarativeBase):
    pass


class Basket(Base):
    __tablename__ = "baskets"
    id: Mapped[int] = mapped_column(primary_key=True)
    items: Mapped[list["Item"]] = relationship()


class Item(RecordsEvents, Base):
    __tablename__ = "items"
    id: Mapped[int] = mapped_column(primary_key=True)
    basket_id: Mapped[int] = mapped_column(ForeignKey("baskets.id"))


class Parcel(RecordsEvents, Base):
    """One table for two classes."""

    __tablename__ = "parcels"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    region: Mapped[str]
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "parcel"}  # noqa: RUF012


class Letter(Parcel):
    __mapper_args__ = {"polymorphic_identity": "letter"}  # noqa: RUF012


def happened(what: str, id_: object = 1) -> Event:
    return Event(aggregate_type="thing", aggregate_id=str(id_), type=what)


@pytest.mark.parametrize("end", [Session.commit, Session.rollback, Session.expire_all])
def test_objects_that_only_a_collection_held_do_not_make_a_commit_fail(
    end: Callable[[Session], None], sessions: sessionmaker[Session]
) -> None:
    """Expiring their parent has them collected, while the session goes over a list of what it expires."""
    with sessions() as session:
        Base.metadata.create_all(session.connection())
        session.add(Basket(id=1, items=[Item(), Item()]))
        session.commit()
        basket = session.get_one(Basket, 1)
        assert len(basket.items) == 2
        session.execute(text("UPDATE orders SET state = 'done'"))
        end(session)
        session.commit()


def test_objects_that_only_a_collection_held_do_not_make_an_async_commit_fail(
    sessions: sessionmaker[Session], database: Database
) -> None:
    with sessions.begin() as session:
        Base.metadata.create_all(session.connection())
        session.add(Basket(id=1, items=[Item(), Item()]))

    async def commit() -> None:
        made = async_sessionmaker(create_async_engine(url(database.dsn, "asyncpg"), poolclass=NullPool))
        write_recorded(made, Outbox())
        async with made.begin() as session:
            basket = await session.get_one(Basket, 1)
            await session.refresh(basket, ["items"])
            basket.items[0].record(happened("touched"))

    asyncio.run(commit())
    assert written(database) == [("1", "touched")]


@pytest.mark.parametrize("way", ["flush", "query", "another object", "savepoint", "bulk delete"])
def test_an_object_that_is_deleted_already_still_tells_of_it(
    way: str, sessions: sessionmaker[Session], database: Database
) -> None:
    id_ = made_order(sessions)
    with sessions.begin() as session:
        order = session.get_one(Order, id_)
        if way == "bulk delete":
            session.execute(text("SELECT 1"))
            session.query(Order).where(Order.id == id_).delete()
        elif way == "savepoint":
            with session.begin_nested():
                session.delete(order)
        else:
            session.delete(order)
            session.scalars(select(Order)).all() if way == "query" else session.flush()
        order.record(happened("deleted", id_))
        if way == "another object":
            session.add(Order())
    assert written(database) == [(str(id_), "deleted")]
    assert order.recorded_events == ()


def test_what_a_deleted_object_tells_goes_with_its_deletion(
    sessions: sessionmaker[Session], database: Database
) -> None:
    id_ = made_order(sessions)
    with sessions() as session:
        order = session.get_one(Order, id_)
        savepoint = session.begin_nested()
        session.delete(order)
        session.flush()
        order.record(happened("never"))
        savepoint.rollback()
        assert order.recorded_events == ()
        session.delete(order)
        session.flush()
        order.record(happened("before the savepoint"))
        savepoint = session.begin_nested()
        session.add(Order(id=99))
        session.flush()
        order.record(happened("inside"))
        savepoint.rollback()
        session.commit()
    assert written(database) == [("1", "before the savepoint")]


def test_an_event_of_a_deleted_object_that_comes_too_late_for_the_commit_is_an_error(
    sessions: sessionmaker[Session], database: Database
) -> None:
    id_ = made_order(sessions)
    with sessions() as session:
        order = session.get_one(Order, id_)
        sqlalchemy_event.listen(session, "before_commit", lambda _: order.record(happened("late")))
        session.delete(order)
        session.flush()
        with pytest.raises(RuntimeError, match="too late for an event of it"):
            session.commit()
        session.rollback()
    assert database.execute("SELECT count(*) FROM orders") == [(1,)]


def test_what_the_session_reads_again_over_a_change_takes_its_event(
    sessions: sessionmaker[Session], database: Database
) -> None:
    id_ = made_order(sessions)
    with sessions(autoflush=False, expire_on_commit=False) as session:
        order = session.get_one(Order, id_)
        order.did("paid")
        session.scalars(select(Order).execution_options(populate_existing=True)).one()
        assert (order.state, order.recorded_events) == ("new", ())
        order.did("shipped")
        session.refresh(order, ["state"])
        assert (order.state, order.recorded_events) == ("new", ())
        order.did("returned")
        session.expire(order, ["state"])
        assert order.recorded_events == ()
        session.commit()
        order.did("cancelled")
        session.commit()
    assert [what for _, what in written(database)] == ["cancelled"]


def test_what_the_session_reads_for_the_first_time_takes_no_event(
    sessions: sessionmaker[Session], database: Database
) -> None:
    id_ = made_order(sessions)
    with sessions(autoflush=False) as session:
        order = session.get_one(Order, id_)
        session.commit()
        order.record(happened("looked at"))
        assert order.state == "new", "it was expired"
        session.commit()
        order.did("paid")
        session.get_one(Order, id_, with_for_update=True)
        session.scalars(select(Order)).all()
        session.execute(update(Order).values(id=Order.id))
        session.commit()
    assert [what for _, what in written(database)] == ["looked at", "paid"]
    assert database.execute("SELECT state FROM orders") == [("paid",)]


def test_an_event_of_two_changes_of_which_one_is_taken_back_is_an_error(sessions: sessionmaker[Session]) -> None:
    with sessions(autoflush=False) as session:
        Base.metadata.create_all(session.connection())
        session.add(parcel := Parcel(id=1, region="north"))
        session.flush()
        parcel.region = "south"
        parcel.kind = "letter"
        parcel.record(happened("moved and opened"))
        with pytest.raises(RuntimeError, match=r"region of Parcel 1 was expired, and its change with it; .* of kind"):
            session.expire(parcel, ["region"])


def test_what_the_database_computes_in_a_flush_takes_no_event(
    sessions: sessionmaker[Session], database: Database
) -> None:
    id_ = made_order(sessions)
    with sessions.begin() as session:
        order: Any = session.get_one(Order, id_)
        order.state = text("upper('paid')")
        order.record(happened("paid"))
    assert written(database) == [("1", "paid")]
    assert database.execute("SELECT state FROM orders") == [("PAID",)]


def test_a_copy_and_a_pickle_have_no_events(sessions: sessionmaker[Session], database: Database) -> None:
    id_ = made_order(sessions)
    with sessions.begin() as session:
        order = session.get_one(Order, id_)
        order.did("paid")
        session.flush()
        order.did("shipped")
        for other in (copy.copy(order), copy.deepcopy(order), pickle.loads(pickle.dumps(order))):
            assert other.recorded_events == ()
        assert len(order.recorded_events) == 2
    with sessions.begin() as session:
        session.merge(pickle.loads(pickle.dumps(order)))
    assert [what for _, what in written(database)] == ["paid", "shipped"]


def test_an_event_goes_where_a_flush_writes_its_object(
    sessions: sessionmaker[Session], database: Database, postgres: Postgres
) -> None:
    """A flush asks by the base of the classes, or by the object; what is bound to a subclass is for queries."""
    other = postgres.create_database()
    engines = [create_engine(url(each.dsn, "psycopg"), poolclass=NullPool) for each in (database, other)]
    try:
        for engine in engines:
            Base.metadata.create_all(engine)
        other.execute("CREATE TABLE outbox (LIKE pg_class)")  # whatever is written there fails
        by_class = sessionmaker(binds={Parcel: engines[0], Letter: engines[1]})
        by_object: Any = sessionmaker(
            class_=ShardedSession,
            shards=dict(zip(["north", "south"], reversed(engines), strict=True)),
            shard_chooser=lambda mapper, instance, clause=None: instance.region if instance else "north",
            identity_chooser=lambda *_, **__: ["north", "south"],
            execute_chooser=lambda context: ["north", "south"],
        )
        for number, several in enumerate([by_class, by_object], 1):
            write_recorded(several, Outbox())
            with several.begin() as session:
                letter = Letter(id=number, region="south")
                letter.record(happened("sent", number))
                session.add(letter)
                session.flush()
                session.delete(letter)
                session.flush()
                letter.record(happened("deleted", number))
    finally:
        other.drop()
    assert written(database) == [("1", "sent"), ("1", "deleted"), ("2", "sent"), ("2", "deleted")]


@pytest.mark.filterwarnings("ignore:The `objects` parameter")
def test_a_flush_of_some_objects_writes_the_events_of_those(
    sessions: sessionmaker[Session], database: Database
) -> None:
    with sessions.begin() as session:
        first, second = Order(), Order()
        session.add_all([first, second])
        second.did("second")
        first.did("first")
        session.flush([first])
        with session.no_autoflush:
            assert session.scalar(text("SELECT count(*) FROM outbox")) == 1
    assert [what for _, what in written(database)] == ["first", "second"]


def test_a_unit_of_work_has_one_outbox(sessions: sessionmaker[Session], database: Database) -> None:
    database.execute("CREATE TABLE own_outbox (LIKE outbox INCLUDING ALL)")
    with UnitOfWork(sessions, Outbox("public.own_outbox")) as work:
        order = Order(id=1)
        order.did("placed")
        work.session.add(order)
        work.emit(happened("busy"))
    assert written(database) == []
    assert database.execute("SELECT count(*) FROM own_outbox") == [(2,)]


def test_sessions_may_leave_events_out_on_purpose(sessions: sessionmaker[Session], database: Database) -> None:
    made = sessionmaker(create_engine(url(database.dsn, "psycopg"), poolclass=NullPool))
    with pytest.raises(RuntimeError, match="its session writes none"), made.begin() as session:  # noqa: PT012
        session.add(order := Order(id=1))
        order.did("placed")
    assert database.execute("SELECT * FROM orders") == []
    write_recorded(made, None)
    with made.begin() as session:
        session.add(order)
    assert database.execute("SELECT state FROM orders") == [("placed",)]
    assert (written(database), order.recorded_events) == ([], ())
