"""News of orders for the tests."""

from walrelay.lab.demo.events import Change, Inserted, Order, OrderLine

CHANGE = Change(Order("A-1", "Ada", (OrderLine("teapot", 2, 12.5),)), 1, rolled_back=False)


def committed(event: str, at_ns: int) -> Inserted:
    return Inserted(event, CHANGE, at_ns)
