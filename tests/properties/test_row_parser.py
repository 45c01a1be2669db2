"""The row parser that is written out, against the loop that is its reference."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import pgoutput_encoder as server
from walrelay.errors import ProtocolError
from walrelay.wire import pgoutput
from walrelay.wire.frames import BODY, xlogdata
from walrelay.wire.row_parser import row_parser

Reader = Callable[[bytes], Any] | None
Readers = list[Reader]

each_reader: list[Reader] = [None, bytes, bytes.hex, int]
readers = st.lists(st.sampled_from(each_reader), max_size=6)
values = st.none() | st.binary(max_size=300) | st.integers().map(lambda number: str(number).encode())


@st.composite
def rows(draw: st.DrawFn) -> tuple[Readers, bytes]:
    """Readers, and the frame of a row with as many columns, in text or binary."""
    chosen = draw(readers)
    row = draw(st.lists(values, min_size=len(chosen), max_size=len(chosen)))
    insert = bytearray(xlogdata(1, 1, server.insert(16400, row)))
    if draw(st.booleans()):
        at = pgoutput.ROW
        for each in row:
            insert[at : at + 1] = b"n" if each is None else b"b"
            at += 1 if each is None else 5 + len(each)
    return chosen, bytes(insert)


def by_the_loop(frame: bytes, chosen: Readers, places: Sequence[int | None]) -> tuple[Any, ...] | type[Exception]:
    try:
        values = iter(pgoutput.parse_row(frame, chosen))
    except (ProtocolError, ValueError) as cause:
        return type(cause)
    read = [next(values) if each else None for each in chosen]
    return (7, 8, 9, *(None if place is None else read[place] for place in places))


def written_out(frame: bytes, chosen: Readers, places: Sequence[int | None]) -> tuple[Any, ...] | type[Exception]:
    try:
        return row_parser(chosen, places, tuple)(frame, 7, 8, 9)
    except (ProtocolError, ValueError) as cause:
        return type(cause)


def places_of(chosen: Readers) -> list[int | None]:
    """Backwards, one of them twice, and a role without a column."""
    read = [place for place, each in enumerate(chosen) if each][::-1]
    return [*read, None, *read[:1]]


@given(rows())
def test_a_row_that_is_parsed_written_out_is_the_row_that_the_loop_parses(case: tuple[Readers, bytes]) -> None:
    chosen, frame = case
    assert written_out(frame, chosen, places_of(chosen)) == by_the_loop(frame, chosen, places_of(chosen))


@given(rows(), st.data())
@example(([None, int], xlogdata(1, 1, server.insert(16400, [b"1", b"2"]))), None)
def test_of_a_damaged_row_both_say_the_same(case: tuple[Readers, bytes], data: st.DataObject | None) -> None:
    chosen, frame = case
    if data is None:
        damaged = frame[:-1]
    elif data.draw(st.booleans()):
        damaged = frame[: data.draw(st.integers(BODY + 8, len(frame)))]
    else:
        at = data.draw(st.integers(BODY + 8, max(BODY + 8, len(frame) - 1)))
        damaged = frame[:at] + bytes([data.draw(st.integers(0, 255))]) + frame[at + 1 :]
    assert written_out(damaged, chosen, places_of(chosen)) == by_the_loop(damaged, chosen, places_of(chosen))


def test_a_column_of_an_unknown_kind_and_a_row_that_is_too_long_are_errors_that_say_so() -> None:
    parse = row_parser([bytes], [0], tuple)
    frame = xlogdata(1, 1, server.insert(16400, [b"1"]))
    with pytest.raises(ProtocolError, match="a column of kind 'u'"):
        parse(frame[: pgoutput.ROW] + b"u", 7, 8, 9)
    with pytest.raises(ProtocolError, match="whose columns do not fill it"):
        parse(frame + b"1", 7, 8, 9)
