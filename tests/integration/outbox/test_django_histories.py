"""Django's models through random histories: an event is committed if and only if its change is, once."""

import copy
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.apps import AppConfig, apps
from django.db import models, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.integration.libraries import django_default
from tests.integration.outbox.histories import TABLES, WORDS, check, emptied
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


@pytest.fixture
def entries(database: Database) -> Iterator[Any]:
    database.execute(TABLES)
    with django_default(database.dsn):
        yield _entry_model()


def machine(model: Any, looking: psycopg.Connection[Any]) -> type[RuleBasedStateMachine]:
    class Models(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            emptied(looking)
            self.entries: list[Any] = []
            self.blocks: list[Any] = []
            self.by_hand: list[list[str]] = []  # savepoints of each block

        def at(self, place: int) -> Any:
            return self.entries[place % len(self.entries)] if self.entries else None

        @rule(grown=st.booleans())
        def make(self, grown: bool) -> None:
            entry = model()
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
                entry.save()
                return
            with transaction.atomic():
                entry.save()
                transaction.set_rollback(wrapped == "rolled back")

        @rule(places=st.lists(st.integers(0, 5), max_size=4))
        def save_at_once(self, places: list[int]) -> None:
            """What calls no save()."""
            chosen = {id(entry): entry for place in places if (entry := self.at(place)) is not None}
            with transaction.atomic():
                for entry in chosen.values():
                    entry.save_base()
                write_recorded(chosen.values())

        @rule(place=st.integers(0, 5))
        def delete(self, place: int) -> None:
            if (entry := self.at(place)) is not None:
                with transaction.atomic():
                    word = entry.grows()
                    entry.save()
                    entry.tells(f"{word}-deleted")
                    entry.delete()
                self.entries = [each for each in self.entries if each is not entry]

        @rule(place=st.integers(0, 5), whole=st.booleans())
        def read_again(self, place: int, whole: bool) -> None:
            entry = self.at(place)
            if entry is None or entry.pk is None or not model.objects.filter(pk=entry.pk).exists():
                return
            entry.refresh_from_db() if whole else entry.refresh_from_db(fields=["id"])

        @precondition(lambda self: len(self.blocks) < 3)
        @rule()
        def begin(self) -> None:
            block = transaction.atomic()
            block.__enter__()
            self.blocks.append(block)
            self.by_hand.append([])

        @precondition(lambda self: self.blocks)
        @rule(kept=st.booleans())
        def end(self, kept: bool) -> None:
            self.by_hand.pop()
            if not kept:
                transaction.set_rollback(True)
            self.blocks.pop().__exit__(None, None, None)

        @precondition(lambda self: self.blocks)
        @rule()
        def savepoint(self) -> None:
            self.by_hand[-1].append(transaction.savepoint())

        @precondition(lambda self: self.blocks and self.by_hand[-1])
        @rule(kept=st.booleans(), place=st.integers(0, 3))
        def end_of_savepoint(self, kept: bool, place: int) -> None:
            names = self.by_hand[-1]
            name = names[place % len(names)]
            del names[names.index(name) :]  # those made in it go with it
            (transaction.savepoint_commit if kept else transaction.savepoint_rollback)(name)

        @rule(place=st.integers(0, 5), how=st.sampled_from([copy.copy, copy.deepcopy, pickle.dumps]))
        def copied(self, place: int, how: Any) -> None:
            if (entry := self.at(place)) is not None:
                other = pickle.loads(how(entry)) if how is pickle.dumps else how(entry)
                assert other.recorded_events == ()
                other.grows()

        @invariant()
        def events_are_the_committed_changes(self) -> None:
            check(looking)

        def teardown(self) -> None:
            while self.blocks:
                self.end(True)
            for entry in self.entries:
                entry.save()
                assert entry.recorded_events == ()
            check(looking)

    return Models


def run(model: Any, database: Database, examples: int) -> None:
    with database.connect() as looking:
        run_state_machine_as_test(
            machine(model, looking),
            settings=settings(
                max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )


def test_events_are_committed_with_their_changes_whatever_models_go_through(entries: Any, database: Database) -> None:
    run(entries, database, 100)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_events_are_committed_with_their_changes_through_many_histories(entries: Any, database: Database) -> None:
    run(entries, database, 600)
