"""SQLAlchemy's sessions through random histories: an event is committed if and only if its change is, once."""

import asyncio
import copy
import gc
import pickle
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import create_engine, inspect, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.ext.horizontal_shard import ShardedSession
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    SessionTransaction,
    make_transient,
    mapped_column,
    sessionmaker,
)
from sqlalchemy.pool import NullPool, StaticPool

from tests.integration.libraries import async_engine, url
from tests.integration.outbox.histories import WORDS, check, emptied
from tests.servers.database import Database
from walrelay.outbox import Event, Outbox
from walrelay.outbox.sqlalchemy import RecordsEvents, write_recorded


class Base(DeclarativeBase):
    pass


class OtherBase(DeclarativeBase):
    pass


class _Entry(RecordsEvents):
    __tablename__ = "entries"
    id: Mapped[int] = mapped_column(primary_key=True)
    log: Mapped[str] = mapped_column(default="")

    def grows(self) -> str:
        word = f"w{next(WORDS)}"
        self.log = f"{self.log or ''} {word}"
        self.tells(word)
        return word

    def tells(self, word: str) -> None:
        self.record(lambda: Event(aggregate_type="entry", aggregate_id=self.id, type=word))


class Entry(_Entry, Base):
    place = "first"  # of its row, where each object has its own


class Elsewhere(_Entry, OtherBase):
    """In a table of the same name; in another database."""


def _place(_: object, entry: Any, __: object = None) -> str:
    return str(inspect(entry).identity_token or entry.place)


PLACES = ["first", "second"]
SHARDED = {
    "shard_chooser": _place,
    "identity_chooser": lambda *_, **__: PLACES,
    "execute_chooser": lambda _: PLACES,
}
ONE, BY_CLASS, BY_OBJECT = "one database", "a database for each class", "a database for each object"
LAYOUTS = st.sampled_from([ONE, BY_CLASS, BY_OBJECT])


def _bound(layout: str, engines: Sequence[Any]) -> dict[str, Any]:
    """The options of sessions that write to these databases."""
    if layout == BY_CLASS:
        return {"binds": dict(zip([Entry, Elsewhere], engines, strict=True))}
    if layout == BY_OBJECT:
        return {"shards": dict(zip(PLACES, engines, strict=True)), **SHARDED}
    return {"bind": engines[0]}


class _Sync:
    def __init__(self, databases: Sequence[Database], layout: str, **options: Any) -> None:
        self.engines = [create_engine(url(each.dsn, "psycopg"), poolclass=StaticPool) for each in databases]
        kind = ShardedSession if layout == BY_OBJECT else Session
        made: sessionmaker[Any] = sessionmaker(class_=kind, **_bound(layout, self.engines), **options)
        write_recorded(made, Outbox())
        self.session: Session = made()

    def do(self, work: Callable[[Session], Any]) -> Any:
        return work(self.session)

    def end(self) -> None:
        self.session.close()
        for engine in self.engines:
            engine.dispose()


class _Async:
    def __init__(self, databases: Sequence[Database], layout: str, **options: Any) -> None:
        self._runner = asyncio.Runner()
        engines: list[Any] = [async_engine(each.dsn, poolclass=NullPool) for each in databases]
        if layout == BY_OBJECT:
            options["sync_session_class"] = ShardedSession
            engines = [each.sync_engine for each in engines]
        made: async_sessionmaker[Any] = async_sessionmaker(**_bound(layout, engines), **options)
        write_recorded(made, Outbox())
        self.session: AsyncSession = made()

    def do(self, work: Callable[[Session], Any]) -> Any:
        return self._runner.run(self.session.run_sync(work))

    def end(self) -> None:
        self._runner.run(self.session.close())
        self._runner.close()


def machine(
    databases: Sequence[Database], looking: Sequence[psycopg.Connection[Any]], kind: Callable[..., Any]
) -> type[RuleBasedStateMachine]:
    class Sessions(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            for each in looking:
                emptied(each)
            self.entries: list[_Entry] = []
            self.open: Any = None
            self.layout = ONE
            self.savepoints: list[SessionTransaction] = []

        @initialize(layout=LAYOUTS, autoflush=st.booleans(), expiring=st.booleans())
        def begin_first(self, layout: str, autoflush: bool, expiring: bool) -> None:
            self.begin(layout, autoflush, expiring)

        @precondition(lambda self: self.open is None)
        @rule(layout=LAYOUTS, autoflush=st.booleans(), expiring=st.booleans())
        def begin(self, layout: str, autoflush: bool, expiring: bool) -> None:
            self.open = kind(databases, layout, autoflush=autoflush, expire_on_commit=expiring)
            self.layout = layout
            self.entries = [each for each in self.entries if inspect(each).transient]

        def at(self, place: int, *states: str) -> _Entry | None:
            """One of the objects that are in one of these states, and that can be used."""
            found = [each for each in self.entries if any(getattr(inspect(each), state) for state in states)]
            # Expired by a savepoint's rollback, then new again by the transaction's: SQLAlchemy has nothing to load.
            found = [each for each in found if not (inspect(each).transient and inspect(each).expired_attributes)]
            return found[place % len(found)] if found and self.open is not None else None

        @precondition(lambda self: self.open is not None)
        @rule(grown=st.booleans(), place=st.integers(0, 5), other=st.booleans())
        def add(self, grown: bool, place: int, other: bool = False) -> None:
            entry = self.at(place, "transient") if place > 2 else None
            if entry is None or (isinstance(entry, Elsewhere) and self.layout != BY_CLASS):
                entry = Elsewhere() if other and self.layout == BY_CLASS else Entry()
                if isinstance(entry, Entry) and other:
                    entry.place = "second"
                self.entries.append(entry)
            if grown:
                entry.grows()
            self.open.do(lambda session: session.add(entry))

        @rule(place=st.integers(0, 5), times=st.integers(1, 3))
        def grow(self, place: int, times: int) -> None:
            if (entry := self.at(place, "persistent", "pending")) is not None:
                self.open.do(lambda _: [entry.grows() for _ in range(times)])

        @rule(place=st.integers(0, 5), kept=st.booleans(), new=st.booleans())
        def grow_in_a_savepoint(self, place: int, kept: bool, new: bool) -> None:
            if new or self.at(place, "persistent", "pending") is None:
                self.add(True, 0) if self.open is not None else None
            if (entry := self.entries[-1] if new and self.entries else self.at(place, "persistent", "pending")) is None:
                return
            if self.open is None or inspect(entry).transient:
                return

            def work(session: Session) -> None:
                savepoint = session.begin_nested()
                entry.grows()
                session.flush()
                savepoint.commit() if kept else savepoint.rollback()

            self.open.do(work)

        @rule(place=st.integers(0, 5), flushed=st.booleans())
        def delete(self, place: int, flushed: bool) -> None:
            if (entry := self.at(place, "persistent")) is not None:

                def gone(session: Session) -> None:
                    word = entry.grows()
                    session.flush()
                    session.delete(entry)
                    if flushed:
                        session.flush()
                    entry.tells(f"{word}-deleted")

                self.open.do(gone)
                self.entries = [each for each in self.entries if each is not entry]

        @precondition(lambda self: self.open is not None)
        @rule()
        def flush(self) -> None:
            self.open.do(lambda session: session.flush())

        @precondition(lambda self: self.open is not None)
        @rule()
        def commit(self) -> None:
            self.savepoints.clear()
            self.open.do(lambda session: session.commit())
            assert not any(each.recorded_events for each in self.entries if inspect(each).persistent)

        @precondition(lambda self: self.open is not None)
        @rule()
        def roll_back(self) -> None:
            self.savepoints.clear()
            self.open.do(lambda session: session.rollback())

        @precondition(lambda self: self.open is not None and len(self.savepoints) < 3)
        @rule()
        def savepoint(self) -> None:
            self.savepoints.append(self.open.do(lambda session: session.begin_nested()))

        @precondition(lambda self: self.savepoints)
        @rule(kept=st.booleans())
        def end_of_savepoint(self, kept: bool) -> None:
            last = self.savepoints.pop()
            self.open.do(lambda _: last.commit() if kept else last.rollback())

        @rule(place=st.integers(0, 5), how=st.sampled_from(["expire", "part", "refresh", "populate", "load", "lock"]))
        def read_again(self, place: int, how: str) -> None:
            if (entry := self.at(place, "persistent")) is None:
                return

            def work(session: Session) -> None:
                if how in ("expire", "part"):
                    session.expire(entry, ["log"] if how == "part" else None)
                elif how == "refresh":
                    session.refresh(entry)
                elif how == "lock":
                    session.get(
                        type(entry), entry.id, with_for_update=True, identity_token=inspect(entry).identity_token
                    )
                else:
                    query = select(type(entry)).execution_options(populate_existing=how == "populate")
                    session.scalars(query).all()

            self.open.do(work)

        @rule(place=st.integers(0, 5))
        def expunge(self, place: int) -> None:
            if (entry := self.at(place, "persistent", "pending")) is not None:
                self.open.do(lambda session: session.expunge(entry))
                if not inspect(entry).transient:
                    self.entries = [each for each in self.entries if each is not entry]

        @rule(place=st.integers(0, 5), how=st.sampled_from([copy.copy, copy.deepcopy, pickle.dumps]))
        def copied(self, place: int, how: Callable[[Any], Any]) -> None:
            if (entry := self.at(place, "persistent")) is not None:
                self.open.do(lambda _: entry.log)
                other = pickle.loads(how(entry)) if how is pickle.dumps else how(entry)
                assert other.recorded_events == ()
                if how is not copy.copy:  # which has the state of the other
                    before = entry.recorded_events
                    assert self.open.do(lambda session: session.merge(other)) is entry
                    assert entry.recorded_events == before

        @rule(place=st.integers(0, 5))
        def become_another(self, place: int) -> None:
            entry = self.at(place, "persistent")
            if entry is not None and not entry.recorded_events:
                make_transient(entry)
                state: Any = entry
                state.id, state.log = None, ""

        @rule(place=st.integers(0, 5))
        def forget(self, place: int) -> None:
            """The session alone has it from now on, weakly once it is written."""
            if (entry := self.at(place, "persistent", "pending")) is not None:
                self.entries = [each for each in self.entries if each is not entry]
                del entry
                gc.collect()

        @precondition(lambda self: self.open is not None)
        @rule()
        def close(self) -> None:
            self.savepoints.clear()
            self.open.end()
            self.open = None

        @invariant()
        def events_are_the_committed_changes(self) -> None:
            for each in looking:
                check(each)

        def teardown(self) -> None:
            if self.open is not None:
                try:
                    self.open.do(lambda session: session.commit())
                finally:
                    self.open.end()
            self.events_are_the_committed_changes()

    return Sessions


def run(databases: Sequence[Database], kind: Callable[..., Any], examples: int) -> None:
    with ExitStack() as looking:
        run_state_machine_as_test(
            machine(databases, [looking.enter_context(each.connect()) for each in databases], kind),
            settings=settings(
                max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )


@pytest.mark.parametrize("kind", [_Sync, _Async], ids=["sync", "async"])
def test_events_are_committed_with_their_changes_whatever_sessions_go_through(
    kind: Callable[..., Any], databases: list[Database]
) -> None:
    run(databases, kind, 10)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", [_Sync, _Async], ids=["sync", "async"])
def test_events_are_committed_with_their_changes_through_many_histories(
    kind: Callable[..., Any], databases: list[Database]
) -> None:
    run(databases, kind, 600)
