"""Names on a command line, with commas between them."""

import argparse
from collections.abc import Callable, Iterable


def names(allowed: Iterable[str]) -> Callable[[str], list[str]]:
    """A type for argparse: those of the names that were asked for."""

    def parse(text: str) -> list[str]:
        found = text.split(",")
        if unknown := set(found) - set(allowed):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(allowed)}")
        return found

    return parse
