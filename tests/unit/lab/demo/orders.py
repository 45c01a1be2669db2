"""News of orders for the tests."""

from walrelay.lab.demo.events import Change, Committed, Line, Order

CHANGE = Change(Order("A-1", "Ada", (Line("teapot", 2, 12.5),)), 1, rolled_back=False)


def committed(event: str, at_ns: int) -> Committed:
    return Committed(event, CHANGE, at_ns)
