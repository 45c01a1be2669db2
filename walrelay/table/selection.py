"""Which rows of the outbox: the condition for those of a selection, and for how far an earlier reading got.

A row's transaction is known by its xmin, 32 bits of the number that it had (xid8). A transaction below the xmin of a
snapshot had ended when that was taken; of all others nothing is known, because the list of a snapshot's running
transactions leaves out their subtransactions.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from walrelay.table.description import OutboxTable, Term, as_text, verbatim

Key = tuple[str | None, ...]
"""A row's place in the order: the printed value of each term."""


class Reached(NamedTuple):
    """Everything that came before `before` in a snapshot with this xmin is durable at the broker."""

    xmin: int
    before: Key


class Condition(NamedTuple):
    """An expression over the row `o`, with the parameters for its `%s`."""

    text: str = "true"
    parameters: Sequence[Any] = ()


class Selection(NamedTuple):
    """Which rows: of transactions from `floor` on, committed or written since a time, whose ids are not known; of
    transactions before `ceiling` (0: of any), and for which a condition holds.
    """

    floor: int = 0
    since: str | None = None
    known: Sequence[str] = ()
    reached: Sequence[Reached] = ()
    ceiling: int = 0
    also: Condition = Condition()


def where(table: OutboxTable, selection: Selection, xmax: int) -> tuple[str, list[Any]]:
    """The condition for the selected rows in a snapshot with this xmax, and its parameters."""
    conditions, parameters = ["true"], list[Any]()
    if selection.floor:
        conditions.append(f"{xid8(xmax)} >= {selection.floor}")
    if selection.ceiling:
        conditions.append(f"{xid8(xmax)} < {selection.ceiling}")
    if selection.since is not None:
        conditions.append(f"coalesce({table.time}, 'infinity') >= %s::timestamptz")
        parameters.append(selection.since)
    if table.condition:
        conditions.append(f"({verbatim(table.condition)})")
    if selection.known:
        conditions.append(f"({as_text(table)} = ANY (%s::text[])) IS NOT TRUE")
        parameters.append(list(selection.known))
    for reached in selection.reached:
        before, keys = _before(table.order, reached.before)
        conditions.append(f"NOT ({xid8(xmax)} < {reached.xmin} AND {before})")
        parameters += keys
    conditions.append(f"({selection.also.text})")
    return " AND ".join(conditions), [*parameters, *selection.also.parameters]


def xid8(xmax: int) -> str:
    """The full number of the transaction that wrote the row, which is below the snapshot's xmax.

    Of a row so old that the 32 bits came round since, it is one of a later transaction: such a row may be published
    again, but never passed over.
    """
    return f"({xmax - 1} - (({xmax - 1} - o.xmin::text::int8) & 4294967295))"


def behind(order: Sequence[Term], reached: Sequence[Reached]) -> tuple[str, list[str]]:
    conditions, parameters = ["true"], list[str]()
    for each in reached:
        before, keys = _before(order, each.before)
        conditions.append(f"NOT {before}")
        parameters += keys
    return " AND ".join(conditions), parameters


def _before(order: Sequence[Term], key: Key) -> tuple[str, list[str]]:
    """Whether the row comes before `key`, and the parameters; where values are equal the next term decides."""
    (term, *others), (value, *rest) = order, key
    nested, parameters = _before(others, tuple(rest)) if others else ("false", [])
    if value is None:
        return f"({term.expression} IS NULL AND {nested})", parameters
    less = f"{term.expression} IS NULL OR {term.expression} < %s::{term.type}"
    return f"({less} OR ({term.expression} = %s::{term.type} AND {nested}))", [value, value, *parameters]
