"""Django's models: what they record is committed with their rows."""

import copy
import pickle
import sys
import time
import unittest
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import AppConfig, apps
from django.db import models, transaction
from django.test import TestCase

from tests.integration.libraries import django_default
from tests.servers.database import Database
from walrelay.outbox import Event, Outbox
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

    shop = type("Shop", (AppConfig,), {"path": "."})("shop", sys.modules[__name__])
    shop.apps, shop.models = apps, apps.all_models["shop"]
    apps.app_configs["shop"] = shop  # pickles name it
    return Order


def happened(what: str, id_: object = 1) -> Event:
    return Event(aggregate_type="order", aggregate_id=str(id_), type=what)


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


@pytest.mark.parametrize("inner", [True, False])
def test_what_a_savepoint_by_hand_undid_is_written_by_the_next_save(
    inner: bool, orders: Any, database: Database
) -> None:
    order = orders(pk=1)
    with transaction.atomic():
        order.did("placed")
        order.save()
        savepoint = transaction.savepoint()
        order.did("paid")
        if inner:
            with transaction.atomic():
                order.save()
        else:
            order.save()
        transaction.savepoint_rollback(savepoint)
        assert len(order.recorded_events) == 2
        order.save()
        kept = transaction.savepoint()
        order.did("shipped")
        order.save()
        transaction.savepoint_commit(kept)
        order.save()
    assert (written(database), order.recorded_events) == (["placed", "paid", "shipped"], ())
    assert database.execute("SELECT state FROM shop_order") == [("shipped",)]


def test_what_a_savepoint_by_hand_undid_is_not_written_without_a_save(orders: Any, database: Database) -> None:
    order = orders(pk=1)
    with transaction.atomic():
        order.save()
        savepoint = transaction.savepoint()
        order.did("paid")
        order.save()
        transaction.savepoint_rollback(savepoint)
        order.refresh_from_db()
    assert (written(database), order.recorded_events) == ([], ())


def test_with_autocommit_off_recorded_events_are_refused(orders: Any, database: Database) -> None:
    order = orders(pk=1)
    transaction.set_autocommit(False)
    try:
        order.save()
        transaction.commit()
        order.did("paid")
        with pytest.raises(RuntimeError, match="autocommit is off on 'default'"):
            order.save()
        with pytest.raises(RuntimeError, match="autocommit is off on 'default'"), transaction.atomic():
            order.save()
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)
    assert database.execute("SELECT state FROM shop_order") == [("new",)]
    order.save()
    assert written(database) == ["paid"]


def test_an_object_out_of_a_cache_has_no_events(orders: Any, database: Database) -> None:
    order = orders(pk=1)
    with transaction.atomic():
        order.did("placed")
        order.save()
        order.did("paid")
        cached = pickle.dumps(order)
        order.save()
    again = pickle.loads(cached)
    assert again.recorded_events == ()
    again.save()
    assert written(database) == ["placed", "paid"]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_a_copy_has_the_events_that_it_records_and_no_others(how: Any, orders: Any, database: Database) -> None:
    order = orders(pk=1)
    order.did("placed")
    other = how(order)
    other.pk = 2
    other.did("of the copy")
    order.save()
    assert written(database) == ["placed"]
    other.save(force_insert=True)
    assert database.execute("SELECT aggregate_id, type FROM outbox ORDER BY ctid") == [
        ("1", "placed"),
        ("2", "of the copy"),
    ]


def test_a_save_that_fails_leaves_neither_row_nor_event(orders: Any, database: Database) -> None:
    order = orders(pk=1)
    order.record(Event(aggregate_type="order", aggregate_id="1", type="huge", payload="x" * 2_000_000))
    with pytest.raises(ValueError, match="too large"), transaction.atomic():
        order.save()
    assert database.execute("SELECT * FROM shop_order") == []
    with pytest.raises(transaction.TransactionManagementError), transaction.atomic():  # noqa: PT012
        with pytest.raises(ValueError, match="too large"):
            order.save()
        orders(pk=2).save()


def test_thousands_of_objects_in_one_transaction_take_little_longer_than_by_hand(
    orders: Any, database: Database
) -> None:
    outbox, laps, number = Outbox(), {"by hand": [0.0] * 4, "recorded": [0.0] * 4}, 2000
    with transaction.atomic():
        transaction.on_commit(lambda: None)
        for each in range(number):
            lap = each * 4 // number
            begun = time.process_time()
            orders(pk=each).save_base(force_insert=True)
            outbox.emit(transaction.get_connection(), happened("placed", each))
            between = time.process_time()
            order = orders(pk=number + each)
            order.record(happened("placed", each))
            order.save(force_insert=True)
            laps["by hand"][lap] += between - begun
            laps["recorded"][lap] += time.process_time() - between
    assert sum(laps["recorded"]) < 1.5 * sum(laps["by hand"]), laps
    assert laps["recorded"][3] < 1.5 * laps["recorded"][0] + 0.2, laps
    assert database.execute("SELECT count(*) FROM outbox") == [(2 * number,)]
