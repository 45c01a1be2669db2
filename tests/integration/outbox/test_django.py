"""Django's models: what they record is committed with their rows."""

import copy
import pickle
import unittest
from types import ModuleType
from typing import Any

import pytest
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, TestCase, override_settings
from django.urls import path

from tests.integration.libraries import django_database
from tests.servers.database import Database, Postgres
from walrelay.ddl import script
from walrelay.outbox import Event
from walrelay.outbox.django import write_recorded


def happened(what: str, id_: object = 1) -> Event:
    return Event(aggregate_type="order", aggregate_id=str(id_), type=what)


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


def test_a_testcase_with_several_databases_keeps_their_events_apart(
    orders: Any, database: Database, postgres: Postgres
) -> None:
    other = postgres.create_database()
    other.execute(script("outbox", table="public.outbox"))

    class Case(TestCase):  # type: ignore[misc]
        databases = ("default", "other")

        def test_it(self) -> None:
            for alias in self.databases:
                with self.captureOnCommitCallbacks(using=alias, execute=True):
                    order = orders()
                    order.did(alias)
                    order.save(using=alias)
                    assert len(order.recorded_events) == 1
                assert order.recorded_events == ()
                query = "SELECT array_agg(type) FROM outbox"
                with connections[alias].cursor() as cursor:
                    cursor.execute(query)
                    assert cursor.fetchone() == ([alias],)

    try:
        with django_database(other.dsn, "other") as connection:
            with connection.schema_editor() as editor:
                editor.create_model(orders)
            result = unittest.TestResult()
            unittest.TestSuite([Case("test_it")]).run(result)
        assert (result.errors, result.failures, result.testsRun) == ([], [], 1)
        assert written(database) == written(other) == [], "each test is rolled back"
    finally:
        other.drop()


@pytest.mark.parametrize("atomic", [True, False])
def test_with_atomic_requests_the_events_of_a_view_go_the_way_of_its_request(
    atomic: bool, orders: Any, database: Database
) -> None:
    order = orders(pk=1)
    order.save()

    def view(request: HttpRequest, then: str) -> HttpResponse:
        order.did(then)
        order.save()
        order.save()
        if then == "fails":
            raise ZeroDivisionError
        if then == "refused":
            transaction.set_rollback(True) if atomic else None
        return HttpResponse(str(len(order.recorded_events)))

    connections["default"].settings_dict["ATOMIC_REQUESTS"] = atomic
    urls: Any = ModuleType("urls")
    urls.urlpatterns = [path("<str:then>", view)]
    with override_settings(ROOT_URLCONF=urls, ALLOWED_HOSTS=["*"], MIDDLEWARE=[]):
        client = Client(raise_request_exception=False)
        answers = [client.get(f"/{then}") for then in ("placed", "refused", "fails", "paid")]
    assert [each.status_code for each in answers] == [200, 200, 500, 200]
    assert answers[0].content == (b"1" if atomic else b"0"), "in the view nothing is committed yet"
    # An object that outlives its request keeps what was rolled back, as its attributes: the next save writes it.
    assert written(database) == ["placed", "refused", "fails", "paid"]
    assert order.recorded_events == ()


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


def test_an_event_is_written_once_whichever_databases_its_object_is_saved_to(
    orders: Any, database: Database, postgres: Postgres
) -> None:
    other = postgres.create_database()
    other.execute(script("outbox", table="public.outbox"))
    try:
        with django_database(other.dsn, "other") as connection:
            with connection.schema_editor() as editor:
                editor.create_model(orders)
            order = orders(pk=1)
            with transaction.atomic(), transaction.atomic(using="other"):
                order.did("placed")
                order.save()
                order.save(using="other")
                order.save()
                order.did("paid")
                order.save(using="other")
                order.save()
        assert (order.recorded_events, written(database), written(other)) == ((), ["placed"], ["paid"])
    finally:
        other.drop()


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
