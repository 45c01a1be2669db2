"""Counts in words."""


def count(number: int, one: str, several: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {one if number == 1 else several or one + 's'}"
