"""The innermost loop of walrelay: a parser for the rows of one relation, with the loop over its columns written out.

`pgoutput.parse_row` is the same as a loop, and what this must agree with (tests/properties/test_row_parser.py). Written
out, a row costs two thirds: no column is looked up, and there is no list of values to be put in order
(docs/benchmarks.md). The source text is made of numbers only: no name from the stream gets into it.
"""

from collections.abc import Callable, Mapping, Sequence
from struct import error
from typing import Any, TypeVar

from walrelay.model import NO_COLUMNS
from walrelay.wire.pgoutput import BINARY, NULL, ROW, TEXT, row_does_not_fit, unpack_length, unreadable_kind

T = TypeVar("T")

_PARSER = """
def parse(frame, commit_lsn, ordinal, committed_at):
    at = {row}
    try:{columns}
    except (IndexError, error):
        at = -1
    if at != len(frame):
        raise row_does_not_fit(frame)
    return make((commit_lsn, ordinal, committed_at, {values}))
"""
_COLUMN = """
        kind = frame[at]
        if kind == {binary} or kind == {text}:
            start = at + 5
            at = start + unpack_length(frame, at + 1)[0]
            {value}
        elif kind == {null}:
            at += 1
            {none}
        else:
            raise unreadable_kind(kind)"""
_READ, _NONE = "value_{0} = read_{0}(frame[start:at])", "value_{0} = None"


def row_parser(
    readers: Sequence[Callable[[bytes], Any] | None],
    places: Sequence[int | None],
    make: Callable[[tuple[Any, ...]], T],
    named: Mapping[str, int] | None = None,
) -> Callable[[bytes, int, int, int], T]:
    """A function of an Insert's frame, commit LSN, ordinal and commit time. It calls `make` with a tuple of these three
    and the values of the columns `places`, None where there is no column; it raises what `parse_row` raises.

    `readers`: as for `parse_row`, one for each column of the relation; each of `places` has one. `named`: the last
    value is a mapping, of the values of these columns by name; None: there is no such value.
    """
    kinds = {"binary": BINARY, "text": TEXT, "null": NULL}
    columns = [
        _COLUMN.format(**kinds, value=(_READ if read else "pass").format(n), none=(_NONE if read else "pass").format(n))
        for n, read in enumerate(readers)
    ]
    values = ", ".join("None" if place is None else f"value_{place}" for place in places)
    if named is not None:
        members = ", ".join(f"name_{place}: value_{place}" for place in named.values())
        values += f", {{{members}}}" if named else ", NO_COLUMNS"
    names: dict[str, Any] = {f"read_{n}": read for n, read in enumerate(readers)}
    names |= {f"name_{place}": name for name, place in (named or {}).items()} | {"NO_COLUMNS": NO_COLUMNS}
    names |= {"make": make, "error": error, "unpack_length": unpack_length}
    names |= {"row_does_not_fit": row_does_not_fit, "unreadable_kind": unreadable_kind}
    exec(_PARSER.format(row=ROW, columns="".join(columns) or "pass", values=values), names)
    parser: Callable[[bytes, int, int, int], T] = names["parse"]
    return parser
