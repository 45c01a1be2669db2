"""Sizes as people write them."""

import pytest

from walrelay.postgres.sizes import parse_size, size


@pytest.mark.parametrize(
    ("text", "count"),
    [("1000", 1000), ("1kB", 1024), ("1.5 MB", 3 * 2**19), ("10GB", 10 * 2**30), ("2tb", 2**41), ("7 bytes", 7)],
)
def test_a_size_is_read_as_postgresql_reads_it(text: str, count: int) -> None:
    assert parse_size(text) == count
    assert parse_size(size(count)) == pytest.approx(count, rel=0.05)


@pytest.mark.parametrize("text", ["", "GB", "10 XB", "-1GB", "1e3", "ten"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)
