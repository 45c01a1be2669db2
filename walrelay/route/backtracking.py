"""How long a regular expression may take. Pure, and asked when the settings are read.

Python's engine tries one way to match after the other, and nothing can interrupt it. The ways are the paths through the
expression's automaton, whose states are its characters. Where two paths lead from a state back to it with the same
text, each repetition doubles the ways: exponential. Where a loop and a later one can share their text, as in `a*a*`,
they may meet at each character, and the ways grow with the length for each such pair. A search begins at each
character: that is a loop before the expression. Without any loop the ways are many, where what varies comes often, as
in `(a{1,4}){16}`: they are counted for the texts that have the most, as far as a greedy choice finds them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

from walrelay.route.characters import Chars, matched, samples_of
from walrelay.route.ways import MOST_WAYS, Edges, number_of_ways

_STEPS = 10**11  # a minute or two
_COPIES = 32  # of what has to come so often
_CHOICES = 10  # what may come so many times more or not is copied too; beyond that it counts as without end
_VARYING = 10  # the same if what is repeated has several lengths
_VARYING_IN_LARGE = 4  # and where there are too many states for copies
_STATES = 1_000
_PAIRS = 50_000  # of loops' states that are compared; beyond that they are taken for overlapping

_parser: Any = import_module("re._parser")
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT"}
_ATOMIC = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}
_LOOKS = {"ASSERT", "ASSERT_NOT"}
_STARTS = {"AT_BEGINNING", "AT_BEGINNING_STRING"}


@cache
def longest_text(pattern: re.Pattern[str], *, whole: bool = False) -> int | None:
    """How many characters it may search in; None: any number. ValueError where the time is exponential. `whole`: it has
    to match all of the text.
    """
    parsed = _parser.parse(pattern.pattern, pattern.flags)
    loops, times = _cost(parsed, pattern.flags, _COPIES, parsed.state.groupwidths, whole=whole)
    return None if loops == 0 else int((_STEPS / times) ** (1 / (loops + 1)))


def _cost(
    parsed: Any, flags: int, copies: int, widths: Sequence[Any], *, inner: bool = False, whole: bool = False
) -> tuple[int, int]:
    """With how many loops before it a loop can share its text, at most, and how many times as long that takes because
    of what has no loop. `inner`: it is not searched for.
    """
    made, items = _Automaton(samples_of(parsed), flags, copies, widths), [*parsed]
    anchored = bool(items) and str(items[0][0]) == "AT" and str(items[0][1]) in _STARTS
    made_of = made.sequence(items[1:] if anchored else items)
    if len(made.chars) > _STATES and copies > 1:
        return _cost(parsed, flags, 1, widths, inner=inner, whole=whole)
    free = set() if made.asserts or whole else {*made_of.last}  # a way that comes there is the last one
    if not (inner or anchored or whole):
        start = made.state(made.samples)
        made.follow[start] = Counter({start: 1, **made_of.first})
    components = [each for each in _components(made.follow, len(made.chars)) if _is_loop(each, made.follow)]
    components = [each for each in components if not each <= free]
    for each in components:
        if _is_ambiguous(each - free, made):
            raise _endless(parsed)
    longest = dict[int, int]()
    for number, loop in enumerate(components):  # later ones come first
        behind = [longest[after] for after in range(number) if _share(loop, components[after], made)]
        longest[number] = 1 + max(behind, default=-1)
    ways = number_of_ways(made, made_of.first, components, free)
    if ways > MOST_WAYS:
        raise _endless(parsed)
    return max([made.beside, *longest.values()]), max(made.times, ways // max(len(made.chars), 1), 1)


def _endless(parsed: Any) -> ValueError:
    return ValueError(
        f"{_shown(parsed)} can take for ever: what it repeats can match the same text in several ways, as (a+)+ does."
        " Repeat nothing that has such a repetition inside, or write one as possessive: a++"
    )


def _shown(parsed: Any) -> str:
    return repr(parsed.state.str)


class _Fragment(NamedTuple):
    """Its first and last states, in how many ways each; and in how many ways it matches nothing."""

    first: Counter[int]
    last: Counter[int]
    empty: int


_EMPTY = _Fragment(Counter(), Counter(), 1)


class _Automaton:
    """A state for each character of the expression; `follow` counts the ways from one to the next."""

    def __init__(self, samples: Chars, flags: int, copies: int, widths: Sequence[Any]) -> None:
        self.samples, self._flags, self._copies, self._widths = samples, flags, copies, widths
        self._most = _VARYING if copies > 1 else _VARYING_IN_LARGE
        self.chars: list[Chars] = []
        self.follow: Edges = {}
        self.asserts = False  # whether it may fail where it has come to its end
        self._varying = 0  # repetitions of no fixed number
        self.beside = 0  # loops of parts that are matched for themselves
        self.times = 1  # see `_cost`: of those parts

    def state(self, chars: Chars) -> int:
        self.chars.append(chars)
        return len(self.chars) - 1

    def sequence(self, items: Iterable[Any]) -> _Fragment:
        whole = _EMPTY
        for op, argument in items:
            whole = self._then(whole, self._one(str(op), argument))
        return whole

    def _then(self, before: _Fragment, after: _Fragment) -> _Fragment:
        self._connect(before.last, after.first)
        return _Fragment(
            _sum(before.first, after.first, before.empty),
            _sum(after.last, before.last, after.empty),
            min(before.empty * after.empty, 2),
        )

    def _connect(self, last: Counter[int], first: Counter[int]) -> None:
        for (one, ways), (other, more) in product(last.items(), first.items()):
            edges = self.follow.setdefault(one, Counter())
            edges[other] = min(edges[other] + ways * more, 2)

    def _one(self, op: str, argument: Any) -> _Fragment:
        if op == "SUBPATTERN":
            return self._with_flags(*argument[1:])
        if op == "BRANCH":
            return self._either(self.sequence(each) for each in argument[1])
        if op == "GROUPREF_EXISTS":
            return self._either(self.sequence(each or ()) for each in argument[1:])
        if op in _REPEATS:
            return self._repeated(*argument)
        if op == "GROUPREF":
            return self._again(argument)
        if op == "AT":
            self.asserts = True
            return _EMPTY
        if op in _LOOKS:
            self.asserts = True
            self._apart(argument[1])
            return _EMPTY
        if op in _ATOMIC:
            self._apart(argument[-1] if op == "POSSESSIVE_REPEAT" else argument)
            self.beside = max(self.beside, 1)
            return self._character(self.samples)
        return self._character(matched(op, argument, self.samples, self._flags))

    def _with_flags(self, added: int, removed: int, items: Any) -> _Fragment:
        before = self._flags
        self._flags = (before | added) & ~removed
        found = self.sequence(items)
        self._flags = before
        return found

    def _apart(self, items: Any) -> None:
        loops, times = _cost(items, self._flags, self._copies, self._widths, inner=True)
        self.beside, self.times = max(self.beside, 1 + loops), max(self.times, times)

    def _again(self, group: int) -> _Fragment:
        """What a group has matched: as a loop, if that may be long."""
        low, high = self._widths[group] or (0, _CHOICES + 1)
        found = self._character(self.samples)
        if high > _CHOICES:
            self._connect(found.last, found.first)
        return found._replace(empty=int(low == 0))

    def _character(self, chars: Chars) -> _Fragment:
        state = self.state(chars)
        return _Fragment(Counter({state: 1}), Counter({state: 1}), 0)

    def _either(self, branches: Iterator[_Fragment]) -> _Fragment:
        first, last, empty = Counter[int](), Counter[int](), 0
        for each in branches:
            first, last, empty = _sum(first, each.first), _sum(last, each.last), min(empty + each.empty, 2)
        return _Fragment(first, last, empty)

    def _repeated(self, low: int, high: Any, items: Any) -> _Fragment:
        before, body = self._varying, self.sequence(items)
        varies = body.empty > 0 or self._varying > before
        self._varying += int(high) != low
        whole, endless = _EMPTY, int(high) - low > _CHOICES or (varies and int(high) > self._most)
        for _ in range(min(low, self._copies) - (endless and low > 0)):
            whole = self._then(whole, self.sequence(items))
        if endless:
            self._connect(body.last, body.first)
            if body.empty and low > self._most:  # which of them are empty is one more choice
                self._connect(body.last, body.first)
            rest = body if low else body._replace(empty=1)
        else:
            rest = _EMPTY
            for _ in range(int(high) - low):
                rest = self._then(self.sequence(items), rest)
                rest = rest._replace(empty=min(rest.empty + 1, 2))
        return self._then(whole, rest)


def _sum(one: Counter[int], other: Counter[int], times: int = 1) -> Counter[int]:
    return Counter({state: min(one[state] + times * other[state], 2) for state in (*one, *(other if times else ()))})


def _components(follow: Edges, states: int) -> list[frozenset[int]]:
    """What is strongly connected; each behind those that can be reached from it (Tarjan)."""
    order, low, stack, on_stack = dict[int, int](), dict[int, int](), list[int](), set[int]()
    found: list[frozenset[int]] = []
    for root in range(states):
        work = [] if root in order else [(root, iter(follow.get(root, ())))]
        if work:
            order[root] = low[root] = len(order)
            stack.append(root)
            on_stack.add(root)
        while work:
            state, edges = work[-1]
            for other in edges:
                if other not in order:
                    order[other] = low[other] = len(order)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(follow.get(other, ()))))
                    break
                if other in on_stack:
                    low[state] = min(low[state], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[state])
                if low[state] == order[state]:
                    start = stack.index(state)
                    found.append(frozenset(stack[start:]))
                    on_stack.difference_update(stack[start:])
                    del stack[start:]
    return found


def _is_loop(component: frozenset[int], follow: Edges) -> bool:
    return any(component & follow.get(state, Counter()).keys() for state in component)


def _is_ambiguous(component: frozenset[int], made: _Automaton) -> bool:
    """Whether two paths lead from one of its states back to it with the same text."""
    follow, chars = made.follow, made.chars
    inside = {state: [each for each in follow.get(state, ()) if each in component] for state in component}
    if any(follow[state][other] > 1 for state in component for other in inside[state]):
        return True
    waiting = [(one, other) for state in component for one, other in _pairs(inside[state], inside[state], chars)]
    seen = {pair for pair in waiting if pair[0] < pair[1]}
    waiting = [*seen]
    while waiting:
        one, other = waiting.pop()
        if set(inside[one]) & set(inside[other]):
            return True
        for pair in _pairs(inside[one], inside[other], chars):
            pair = min(pair), max(pair)
            if pair not in seen:
                seen.add(pair)
                waiting.append(pair)
        if len(seen) > _PAIRS:
            return True
    return False


def _pairs(some: Sequence[int], others: Sequence[int], chars: Sequence[Chars]) -> Iterator[tuple[int, int]]:
    return ((one, other) for one in some for other in others if chars[one] & chars[other])


def _share(earlier: frozenset[int], later: frozenset[int], made: _Automaton) -> bool:
    """Whether a text leads from a state of one loop back to it, from there to a state of the other loop, and from that
    back to it.
    """
    follow, chars = made.follow, made.chars
    if not any(chars[one] & chars[other] for one in earlier for other in later):
        return False
    if len(earlier) * len(later) * len(chars) > _PAIRS:
        return True
    for one, other in product(earlier, later):
        seen, waiting = set[tuple[int, int, int]](), [(one, one, other)]
        while waiting:
            before, way, after = waiting.pop()
            for a, b, c in product(follow.get(before, ()), follow.get(way, ()), follow.get(after, ())):
                if a in earlier and c in later and chars[a] & chars[b] & chars[c] and (a, b, c) not in seen:
                    if (a, b, c) == (one, other, other):
                        return True
                    seen.add((a, b, c))
                    waiting.append((a, b, c))
    return False
