"""Standard output that is read slowly, or no more."""

import os
from collections.abc import Iterator

import click
import pytest

from walrelay.cli.find import lines
from walrelay.cli.streams import Output, ReaderGone, printable
from walrelay.operations.find import FoundRows, RowCopy, TracedRow


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The reading end and the writing end; a test may have closed the first."""
    reader, writer = os.pipe()
    yield reader, writer
    os.close(writer)
    if os.path.exists(f"/dev/fd/{reader}"):
        os.close(reader)


def test_what_was_added_is_written_line_by_line(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = Output(writer)
    output.add(b"a")
    output.add(b"b")
    assert len(output) == 4
    assert output.drain(0)
    assert not output
    assert os.read(reader, 100) == b"a\nb\n"


def test_a_reader_that_pauses_leaves_the_rest_waiting(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = Output(writer)
    text = bytes(range(48, 58)) * 100_000
    output.add(text)
    received = b""
    assert not output.drain(0)
    while not output.drain(0):
        received += os.read(reader, 1 << 16)
    while len(received) < len(text) + 1:
        received += os.read(reader, 1 << 16)
    assert received == text + b"\n"


def test_a_reader_that_left_is_noticed_even_with_nothing_to_write(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = Output(writer)
    assert output.drain(0)
    os.close(reader)
    with pytest.raises(ReaderGone):
        output.drain(0)
    output.add(b"a")
    with pytest.raises(ReaderGone):
        output.drain(None)


def test_what_a_terminal_would_obey_is_written_out() -> None:
    clear = "\x1b[2J"
    row = TracedRow(clear, clear, clear, clear, why=clear, copies=(RowCopy("", clear, 0, 1, 0, clear, replayed=False),))
    found = [click.unstyle(each) for each in lines(FoundRows([row]))]
    assert len(found) == 3
    assert all(r"\x1b[2J" in each and each.isprintable() for each in found)
    assert printable("größer 日本") == "größer 日本"
