"""What happens in the demo's shop: orders that are placed, paid, packed, shipped and delivered. No I/O."""

import json
import random
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

_STEPS = ("OrderPlaced", "OrderPaid", "OrderPacked", "OrderShipped", "OrderDelivered")
_CUSTOMERS = ("Ada", "Edgar", "Grace", "Michael", "Barbara", "Jim", "Margaret", "Leslie", "Radia", "Niklaus")
_ARTICLES = ("teapot", "espresso cups", "desk lamp", "wool blanket", "fountain pen", "bread knife", "bicycle bell")
_LINES = range(12, 17)  # an order: an event is of the usual size, about a kilobyte
_OPEN_ORDERS = 5
_OUT_OF = 20  # one change in so many is rolled back


class Line(NamedTuple):
    """Of an order."""

    article: str
    quantity: int
    price: float


class Order(NamedTuple):
    """The aggregate: its id is the key of its events."""

    id: str
    customer: str
    lines: tuple[Line, ...]

    @property
    def total(self) -> float:
        return round(sum(line.quantity * line.price for line in self.lines), 2)


class Change(NamedTuple):
    """The next step of an order, or an attempt at it that ends in ROLLBACK."""

    order: Order
    step: int  # from 1; consumers see 1, 2, 3 ... of each order
    rolled_back: bool

    @property
    def type(self) -> str:
        return _STEPS[self.step - 1]

    @property
    def status(self) -> str:
        return self.type.removeprefix("Order").lower()

    @property
    def payload(self) -> str:
        """The event's JSON."""
        order = self.order
        lines = [line._asdict() for line in order.lines]
        return json.dumps({"step": self.step, "customer": order.customer, "total": order.total, "lines": lines})


def changes(counter: str, committed: int) -> Iterator[Change]:
    """Changes of several orders at a time, `committed` of them not rolled back; `counter` begins the orders' ids."""
    chance = random.Random(counter)
    orders = (_order(f"{counter}-{number}", chance) for number in count(1001))
    open_orders = [(next(orders), 1) for _ in range(_OPEN_ORDERS)]
    while committed:
        place = chance.randrange(_OPEN_ORDERS)
        order, step = open_orders[place]
        rolled_back = chance.randrange(_OUT_OF) == 0
        yield Change(order, step, rolled_back)
        if rolled_back:
            continue
        committed -= 1
        open_orders[place] = (order, step + 1) if step < len(_STEPS) else (next(orders), 1)


def _order(name: str, chance: random.Random) -> Order:
    lines = (Line(chance.choice(_ARTICLES), chance.randint(1, 9), _price(chance)) for _ in range(chance.choice(_LINES)))
    return Order(name, chance.choice(_CUSTOMERS), tuple(lines))


def _price(chance: random.Random) -> float:
    return chance.randrange(250, 10_000) / 100
