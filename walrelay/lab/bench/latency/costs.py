"""Arithmetic with costs: what could not be measured stays unknown. No I/O."""

from collections.abc import Callable, Iterable
from functools import reduce

from walrelay.lab.bench.results import Cost

NOTHING = Cost(0.0, 0.0, 0.0, 0.0)
_DIGITS = 6


def difference(minuend: Cost, subtrahend: Cost) -> Cost:
    """Never cut off at zero: a negative one tells how far the noise goes."""
    return _each(lambda one, other: round(one - other, _DIGITS), minuend, subtrahend)


def total(costs: Iterable[Cost]) -> Cost:
    return reduce(lambda one, other: _each(lambda a, b: a + b, one, other), costs, NOTHING)


def scaled(cost: Cost, factor: float) -> Cost:
    return _each(lambda value, _: round(value * factor, _DIGITS), cost, NOTHING)


def _each(operation: Callable[[float, float], float], one: Cost, other: Cost) -> Cost:
    return Cost(*(None if a is None or b is None else operation(a, b) for a, b in zip(one, other, strict=True)))
