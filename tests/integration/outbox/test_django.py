"""Django's models: what they record is committed with their rows."""

import unittest
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db import models, transaction
from django.test import TestCase

from tests.integration.libraries import django_default
from tests.servers.database import Database
from walrelay.outbox import Event
from walrelay.outbox.django import RecordsEvents, write_recorded


def _order_model() -> Any:
    """Models can be declared when Django is set up, and once."""
    if "shop" in apps.all_models and "order" in apps.all_models["shop"]:
        return apps.all_models["shop"]["order"]

    class Order(RecordsEvents, models.Model):  # type: ignore[misc]
        state = models.TextField(default="new")

        class Meta:
            app_label = "shop"

        def did(self, what: str) -> None:
            self.state = what
            self.record(lambda: Event(aggregate_type="order", aggregate_id=self.pk, type=what))

    return Order


@pytest.fixture
def orders(database: Database) -> Iterator[Any]:
    with django_default(database.dsn) as connection:
        model = _order_model()
        with connection.schema_editor() as editor:
            editor.create_model(model)
        yield model


def written(database: Database) -> list[str]:
    return [what for (what,) in database.execute("SELECT type FROM outbox ORDER BY ctid")]


def test_save_writes_the_row_and_its_events_in_one_transaction(orders: Any, database: Database) -> None:
    order = orders()
    order.did("placed")
    order.save()
    assert database.execute("SELECT aggregate_id, type FROM outbox") == [(str(order.pk), "placed")]
    assert order.recorded_events == ()
    with transaction.atomic():
        order.did("paid")
        order.save()
        transaction.set_rollback(True)
    assert written(database) == ["placed"]
    assert database.execute("SELECT state FROM shop_order") == [("placed",)]


def test_events_are_written_once_in_a_transaction_and_cleared_by_its_commit(orders: Any, database: Database) -> None:
    order = orders()
    with transaction.atomic():
        order.did("placed")
        order.save()
        order.save()
        assert len(order.recorded_events) == 1, "save is no commit"
        with transaction.atomic():
            order.did("paid")
            order.save()
    assert written(database) == ["placed", "paid"]
    assert order.recorded_events == ()


def test_after_a_rollback_the_next_save_writes_row_and_events_again(orders: Any, database: Database) -> None:
    order = orders(pk=1)
    order.did("placed")
    with transaction.atomic():
        order.save()
        transaction.set_rollback(True)
    assert written(database) == []
    order.save(force_insert=True)
    assert (written(database), order.recorded_events) == (["placed"], ())


def test_an_object_that_is_new_again_may_get_another_key(orders: Any, database: Database) -> None:
    order = orders()
    with transaction.atomic():
        order.did("placed")
        order.save()
        transaction.set_rollback(True)
    order.pk, order._state.adding = None, True
    order.save()
    assert database.execute("SELECT aggregate_id FROM outbox") == database.execute("SELECT id::text FROM shop_order")


@pytest.mark.parametrize("again", [True, False])
def test_what_a_savepoint_undid_is_written_by_the_next_save_and_not_without(
    again: bool, orders: Any, database: Database
) -> None:
    order = orders(pk=1)
    with transaction.atomic():
        order.did("placed")
        order.save()
        with transaction.atomic():
            order.did("paid")
            order.save()
            transaction.set_rollback(True)
        if again:
            order.save()
    assert written(database) == (["placed", "paid"] if again else ["placed"])
    assert database.execute("SELECT state FROM shop_order") == [("paid" if again else "placed",)]


def test_what_is_read_back_after_a_rollback_has_no_event_of_what_was_undone(orders: Any, database: Database) -> None:
    order = orders()
    order.save()
    with transaction.atomic():
        order.did("placed")
        order.save()
        transaction.set_rollback(True)
    order.refresh_from_db()
    assert (order.state, order.recorded_events) == ("new", ())
    with transaction.atomic():
        order.did("paid")
        order.save()
        order.refresh_from_db()
        assert len(order.recorded_events) == 1, "it is written, and may still be rolled back"
    assert (written(database), order.recorded_events) == (["paid"], ())


def test_a_deferred_field_is_loaded_without_a_loss(orders: Any, database: Database) -> None:
    orders(pk=1).save()
    order = orders.objects.defer("state").get()
    order.record(Event(aggregate_type="order", aggregate_id=1, type="looked at"))
    assert order.state == "new"
    order.save()
    assert written(database) == ["looked at"]


def test_a_commit_hook_that_fails_does_not_have_events_written_again(orders: Any, database: Database) -> None:
    order = orders()

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        transaction.on_commit(fail)
        order.did("placed")
        order.save()
    order.save()
    assert written(database) == ["placed"]


def test_a_commit_hook_that_saves_does_not_have_events_written_again(orders: Any, database: Database) -> None:
    order = orders()
    with transaction.atomic():
        transaction.on_commit(order.save)
        order.did("placed")
        order.save()
    assert (written(database), order.recorded_events) == (["placed"], ())


def test_a_testcase_captures_the_hooks_that_it_would_without_events(orders: Any, database: Database) -> None:
    calls: list[str] = []

    class Case(TestCase):  # type: ignore[misc]
        def test_it(self) -> None:
            transaction.on_commit(lambda: calls.append("of a fixture"))
            for _ in range(2):
                with self.captureOnCommitCallbacks(execute=True), self.captureOnCommitCallbacks(execute=True):
                    transaction.on_commit(lambda: calls.append("captured"))
                    order = orders()
                    order.did("placed")
                    order.save()
                assert order.recorded_events == ()

    result = unittest.TestResult()
    unittest.TestSuite([Case("test_it")]).run(result)
    assert (result.errors, result.failures) == ([], [])
    assert calls == ["captured"] * 4


def test_delete_tells_of_it_with_the_key_it_had(orders: Any, database: Database) -> None:
    order = orders()
    order.save()
    key = order.pk
    order.did("cancelled")
    order.delete()
    assert database.execute("SELECT aggregate_id, type FROM outbox") == [(str(key), "cancelled")]
    assert database.execute("SELECT * FROM shop_order") == []


def test_what_calls_no_save_is_written_by_hand(orders: Any, database: Database) -> None:
    made = [orders(pk=number) for number in (1, 2)]
    for order in reversed(made):
        order.did("placed")
    with transaction.atomic():
        orders.objects.bulk_create(made)
        write_recorded(made)
    assert database.execute("SELECT aggregate_id FROM outbox ORDER BY ctid") == [("2",), ("1",)]


def test_events_by_hand_outside_of_a_transaction_are_refused(orders: Any, database: Database) -> None:
    order = orders(pk=1)
    order.did("placed")
    with pytest.raises(RuntimeError, match="outside of a transaction"):
        write_recorded([order])
    assert len(order.recorded_events) == 1
