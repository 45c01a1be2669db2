"""What it costs that aggregates record their events, beside the same events emitted by hand.

Counted is the CPU time of this process, by hand and recorded in turns, whatever else the machine does.
"""

import gc
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction
from sqlalchemy.orm import Session, sessionmaker

from tests.integration.outbox.orders import Order
from tests.servers.database import Database
from walrelay.outbox import Event, Outbox
from walrelay.outbox.django import write_recorded

NUMBER, LAPS, ROUNDS, MOST = 10_000, 4, 3, 1.5  # a lap is a twentieth

pytestmark = pytest.mark.timeout(600)

Work = Callable[[int], None]


@pytest.fixture(autouse=True)
def only_its_own_garbage() -> Iterator[None]:
    """What the tests before left on the heap would be searched on the bill of who makes most objects."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def placed(id_: int) -> Event:
    return Event(aggregate_type="order", aggregate_id=id_, type="placed")


def _took(work: Work, number: int) -> float:
    begun = time.process_time()
    work(number)
    return time.process_time() - begun


def _one_after_the_other(by_hand: Work, recorded: Work) -> None:
    """The last ones are what would suffer from all that came before."""
    ratios = []
    for number in range(NUMBER - LAPS * NUMBER // 20):
        recorded(number)
    for lap in reversed(range(LAPS)):
        numbers = range(NUMBER - (lap + 1) * NUMBER // 20, NUMBER - lap * NUMBER // 20)
        laps = [(_took(by_hand, number), _took(recorded, number)) for number in numbers]
        ratios.append(sum(its for _, its in laps) / sum(its for its, _ in laps))
    assert min(ratios) < MOST, ratios


def _at_once(by_hand: Work, recorded: Work) -> None:
    rounds = [(_took(by_hand, turn), _took(recorded, turn)) for turn in range(ROUNDS)]
    assert min(its / plain for plain, its in rounds) < MOST, rounds


def test_ten_thousand_flushes_of_aggregates_in_one_transaction_take_little_longer_than_by_hand(
    sessions: sessionmaker[Session], database: Database
) -> None:
    """And no aggregate is held longer than the session itself holds it."""
    last: list[weakref.ref[Order]] = []
    with sessions() as plain, sessions() as recording:

        def by_hand(number: int) -> None:
            plain.add(Order(id=number))
            plain.flush()
            Outbox().emit(plain, placed(number))

        def recorded(number: int) -> None:
            recording.add(order := Order(id=NUMBER + number))
            order.record(placed(number))
            recording.flush()
            last[:] = [weakref.ref(order)]

        _one_after_the_other(by_hand, recorded)
        gc.collect()
        assert last[0]() is None, "the event is written: nobody needs the object"
        plain.commit()
        recording.commit()
    assert database.execute("SELECT count(*) FROM outbox") == [(NUMBER + LAPS * NUMBER // 20,)]


def test_ten_thousand_aggregates_in_one_flush_take_little_longer_than_by_hand(
    sessions: sessionmaker[Session], database: Database
) -> None:
    def made(first: int) -> list[Order]:
        return [Order(id=number) for number in range(first, first + NUMBER)]

    def by_hand(turn: int) -> None:
        with sessions.begin() as session:
            session.add_all(its := made(2 * turn * NUMBER))
            session.flush()
            Outbox().emit_many(session, [placed(order.id) for order in its])

    def recorded(turn: int) -> None:
        with sessions.begin() as session:
            session.add_all(its := made((2 * turn + 1) * NUMBER))
            for order in its:
                order.record(placed(order.id))

    _at_once(by_hand, recorded)
    assert database.execute("SELECT count(*) FROM outbox") == [(2 * ROUNDS * NUMBER,)]


def test_ten_thousand_objects_of_django_saved_in_one_transaction_take_little_longer_than_by_hand(
    orders: Any, database: Database
) -> None:
    def by_hand(number: int) -> None:
        orders(pk=number).save_base(force_insert=True)
        Outbox().emit(transaction.get_connection(), placed(number))

    def recorded(number: int) -> None:
        order = orders(pk=NUMBER + number)
        order.record(placed(number))
        order.save(force_insert=True)

    with transaction.atomic():
        transaction.on_commit(lambda: None)
        _one_after_the_other(by_hand, recorded)
    assert database.execute("SELECT count(*) FROM outbox") == [(NUMBER + LAPS * NUMBER // 20,)]


def test_ten_thousand_objects_of_django_written_at_once_take_little_longer_than_by_hand(
    orders: Any, database: Database
) -> None:
    def made(first: int) -> list[Any]:
        return [orders(pk=number) for number in range(first, first + NUMBER)]

    def by_hand(turn: int) -> None:
        with transaction.atomic():
            its = orders.objects.bulk_create(made(2 * turn * NUMBER))
            Outbox().emit_many(transaction.get_connection(), [placed(order.pk) for order in its])

    def recorded(turn: int) -> None:
        its = made((2 * turn + 1) * NUMBER)
        for order in its:
            order.record(placed(order.pk))
        with transaction.atomic():
            orders.objects.bulk_create(its)
            write_recorded(its)

    _at_once(by_hand, recorded)
    assert database.execute("SELECT count(*) FROM outbox") == [(2 * ROUNDS * NUMBER,)]
