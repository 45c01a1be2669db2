"""In how many ways a regular expression can match the same text without repeating a loop. Pure."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Protocol

from walrelay.route.characters import Chars

MOST_WAYS = 10**9
"""A minute or so of Python's engine; beyond that they are not counted."""

Edges = dict[int, Counter[int]]


class Automaton(Protocol):
    """A state for each character of the expression; `follow` counts the ways from one to the next."""

    samples: Chars
    chars: list[Chars]
    follow: Edges


def number_of_ways(
    made: Automaton, first: Counter[int], components: Sequence[frozenset[int]], free: Collection[int]
) -> int:
    """How many ways there are to begin to match a text, all lengths together, if each loop is passed through once: for
    the worst of the texts of one character, and of one that has at each place what leaves the most ways.
    """
    loop_of = {state: loop for loop in components for state in loop}
    by_char: dict[frozenset[int], None] = {}
    for char in made.samples:
        by_char[frozenset(state for state, chars in enumerate(made.chars) if char in chars)] = None

    def next_of(ways: Counter[int]) -> Counter[int]:
        found = Counter[int]()
        for state, count in ways.items():
            for other, times in made.follow.get(state, Counter()).items():
                if other > state or loop_of.get(state) is not loop_of.get(other, frozenset()):
                    found[other] += count * times
        return found

    def counted(choices: Sequence[frozenset[int]]) -> int:
        total, ways = 0, first
        for _ in made.chars:
            each_of = [Counter({state: count for state, count in ways.items() if state in each}) for each in choices]
            ways = max(each_of, key=Counter.total)
            total += ways.total()
            if not ways or total > MOST_WAYS or not ways.keys().isdisjoint(free):
                break
            ways = next_of(ways)
        return total

    return max(counted(choices) for choices in ([*by_char], *([each] for each in by_char)))
