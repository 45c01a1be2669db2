"""Django's models through random histories: an event is committed if and only if its change is, once."""

import copy
import pickle
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from django.apps import AppConfig, apps
from django.db import models, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.integration.libraries import django_database
from tests.integration.outbox.histories import WORDS, check, emptied
from tests.servers.database import Database
from walrelay.outbox import Event
from walrelay.outbox.django import RecordsEvents, write_recorded


def _entry_model() -> Any:
    if "histories" in apps.all_models and "entry" in apps.all_models["histories"]:
        return apps.all_models["histories"]["entry"]

    class Entry(RecordsEvents, models.Model):  # type: ignore[misc]
        log = models.TextField(default="")

        class Meta:
            app_label = "histories"
            db_table = "entries"

        def grows(self) -> str:
            word = f"w{next(WORDS)}"
            self.log = f"{self.log} {word}"
            self.tells(word)
            return word

        def tells(self, word: str) -> None:
            self.record(lambda: Event(aggregate_type="entry", aggregate_id=self.pk, type=word))

    config = type("Histories", (AppConfig,), {"path": "."})("histories", sys.modules[__name__])
    config.apps, config.models = apps, apps.all_models["histories"]
    apps.app_configs["histories"] = config  # pickles name it
    return Entry


ALIASES = ["default", "other"]


@pytest.fixture
def entries(databases: list[Database]) -> Iterator[Any]:
    with ExitStack() as open_:
        for alias, each in zip(ALIASES, databases, strict=True):
            open_.enter_context(django_database(each.dsn, alias))
        yield _entry_model()


class _Block:
    """`with transaction.atomic(...)`, and the savepoints that were made in it by hand."""

    def __init__(self, alias: str) -> None:
        self.savepoints: list[str] = []
        self.atomic = transaction.atomic(using=alias)
        self.atomic.__enter__()


def machine(model: Any, looking: Sequence[psycopg.Connection[Any]]) -> type[RuleBasedStateMachine]:
    class Models(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            for each in looking:
                emptied(each)
            self.entries: list[Any] = []
            self.blocks: dict[str, list[_Block]] = {alias: [] for alias in ALIASES}

        def at(self, place: int) -> Any:
            return self.entries[place % len(self.entries)] if self.entries else None

        @rule(grown=st.booleans(), alias=st.sampled_from(ALIASES))
        def make(self, grown: bool, alias: str) -> None:
            entry = model()
            entry.home = alias
            if grown:
                entry.grows()
            self.entries.append(entry)

        @rule(place=st.integers(0, 5), times=st.integers(1, 3))
        def grow(self, place: int, times: int) -> None:
            for _ in range(times if self.entries else 0):
                self.at(place).grows()

        @rule(place=st.integers(0, 5), wrapped=st.sampled_from(["", "kept", "rolled back"]))
        def save(self, place: int, wrapped: str) -> None:
            if (entry := self.at(place)) is None:
                return
            if not wrapped:
                entry.save(using=entry.home)
                return
            with transaction.atomic(using=entry.home):
                entry.save(using=entry.home)
                transaction.set_rollback(wrapped == "rolled back", using=entry.home)

        @rule(places=st.lists(st.integers(0, 5), max_size=4))
        def save_at_once(self, places: list[int]) -> None:
            """What calls no save()."""
            chosen = {id(entry): entry for place in places if (entry := self.at(place)) is not None}
            for alias in ALIASES:
                its = [entry for entry in chosen.values() if entry.home == alias]
                with transaction.atomic(using=alias):
                    for entry in its:
                        entry.save_base(using=alias)
                    write_recorded(its, using=alias)

        @rule(place=st.integers(0, 5))
        def delete(self, place: int) -> None:
            if (entry := self.at(place)) is not None:
                with transaction.atomic(using=entry.home):
                    word = entry.grows()
                    entry.save(using=entry.home)
                    entry.tells(f"{word}-deleted")
                    entry.delete()
                self.entries = [each for each in self.entries if each is not entry]

        @rule(place=st.integers(0, 5), whole=st.booleans())
        def read_again(self, place: int, whole: bool) -> None:
            entry = self.at(place)
            if entry is None or entry.pk is None or not model.objects.using(entry.home).filter(pk=entry.pk).exists():
                return
            entry.refresh_from_db() if whole else entry.refresh_from_db(fields=["id"])

        @precondition(lambda self: sum(map(len, self.blocks.values())) < 4)
        @rule(alias=st.sampled_from(ALIASES))
        def begin(self, alias: str) -> None:
            self.blocks[alias].append(_Block(alias))

        @rule(alias=st.sampled_from(ALIASES), kept=st.booleans())
        def end(self, alias: str, kept: bool) -> None:
            if self.blocks[alias]:
                if not kept:
                    transaction.set_rollback(True, using=alias)
                self.blocks[alias].pop().atomic.__exit__(None, None, None)

        @rule(alias=st.sampled_from(ALIASES))
        def savepoint(self, alias: str) -> None:
            if self.blocks[alias]:
                self.blocks[alias][-1].savepoints.append(transaction.savepoint(using=alias))

        @rule(alias=st.sampled_from(ALIASES), kept=st.booleans(), place=st.integers(0, 3))
        def end_of_savepoint(self, alias: str, kept: bool, place: int) -> None:
            if self.blocks[alias] and (names := self.blocks[alias][-1].savepoints):
                name = names[place % len(names)]
                del names[names.index(name) :]  # those made in it go with it
                (transaction.savepoint_commit if kept else transaction.savepoint_rollback)(name, using=alias)

        @rule(place=st.integers(0, 5), how=st.sampled_from([copy.copy, copy.deepcopy, pickle.dumps]))
        def copied(self, place: int, how: Any) -> None:
            if (entry := self.at(place)) is not None:
                other = pickle.loads(how(entry)) if how is pickle.dumps else how(entry)
                assert other.recorded_events == ()
                other.grows()

        @invariant()
        def events_are_the_committed_changes(self) -> None:
            for each in looking:
                check(each)

        def teardown(self) -> None:
            for alias in ALIASES:
                while self.blocks[alias]:
                    self.end(alias, True)
            for entry in self.entries:
                entry.save(using=entry.home)
                assert entry.recorded_events == ()
            self.events_are_the_committed_changes()

    return Models


def run(model: Any, databases: Sequence[Database], examples: int) -> None:
    with ExitStack() as looking:
        run_state_machine_as_test(
            machine(model, [looking.enter_context(each.connect()) for each in databases]),
            settings=settings(
                max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )


def test_events_are_committed_with_their_changes_whatever_models_go_through(
    entries: Any, databases: list[Database]
) -> None:
    run(entries, databases, 50)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_events_are_committed_with_their_changes_through_many_histories(
    entries: Any, databases: list[Database]
) -> None:
    run(entries, databases, 600)
