"""Regular expressions that could stop the relay's thread are refused, or bounded in the text that they search."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.route.test_rules import RECORD, router
from walrelay.errors import Unroutable
from walrelay.model import OutboxRecord
from walrelay.route.backtracking import longest_text
from walrelay.route.debezium.topics import compiled as compiled_for_debezium
from walrelay.route.rules.conditions import compiled


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"^(a|aa)+$",
        r"^(\w+\s?)*$",
        r"^(x+x+)+y",
        r"((a|ab|b)*c)+",
        r"^(\d+|\d+\.\d+)+$",
        r"^(.*,)*$",
        r"^(([a-z]{1,30})*\.)+com$",
        r"(?i)^(aA?)+$",
        r"^(?:(?i:a)|A)+$",
        r"x(?=(a+)+b)",
        r"^(a+?)+?$",
        r"(\w{0,40}){0,40}$",
        r"(a?){30}b",
        r"^(?:(a+)\1)+$",
        r"^" + r"(?:a{1,4}){4}" * 4 + "$",
        r"^(?:a{1,4}){16}$",
        r"^(?:[ab]{1,3}){20}$",
        r"^(?:(?:ab|a|b){1,2}){20}c",
    ],
)
def test_exponential_ones_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="can take for ever") as caught:
        compiled(pattern)
    assert repr(pattern) in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    [
        r"",
        r"^order\.",
        r"created$",
        r"^([a-z]+\.)+[a-z]+$",
        r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        r"^(?:OrderPlaced|OrderShipped)$",
        r"^\s*\w+\s*(,\s*\w+\s*)*$",
        r'^("[^"]*"|[^",]*)(,("[^"]*"|[^",]*))*$',
        r"^[\w.+-]+@[\w-]+\.[\w.-]+$",
        r"^([0-9a-f]{4}-?)+$",
        r"^\w+@",
        r"^\+?(\d{1,3}[- ]?)?\d{3}[- ]?\d{4}$",
        r"^(\d{1,3}[- ]?){1,5}\d{4}$",
        r"^\+?(\d{1,3}[- ]?){2,8}$",
        r"^(\d{1,3}\.){3}\d{1,3}$",
        r"^(?:(\w)\1)+$",
        r"(?:a{1,4}){4}" * 4,  # what is shorter has few ways, and what is longer is found at once
        r"id=\w+@",
        r"(\w+\s?)+",  # its first way is its last
        r"^(" + "|".join(f"Word{n}" for n in range(300)) + r",)*$",
    ],
)
def test_those_that_look_at_a_text_in_one_way_may_search_in_any(pattern: str) -> None:
    assert longest_text(re.compile(pattern)) is None


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [
        (r"\w+@", 316_227),
        (r"^.*foo.*bar$", 316_227),
        (r'"type":\s*"x".*"v":2', 316_227),
        (r"(a++)+b", 316_227),
        (r"""(["']).*?\1""", 316_227),
        (r"\s+\s+$", 4_641),
        (r"a*a*a*b", 562),
        (r"(.*)(.*)\1\2x", 137),
    ],
)
def test_the_others_may_search_in_texts_that_they_get_through(pattern: str, longest: int) -> None:
    assert longest_text(re.compile(pattern)) == longest
    re.search(pattern, "a" * 300)  # which ends


def test_a_whole_text_that_has_to_match_can_fail_at_its_end() -> None:
    compiled_for_debezium("(?<kind>[a-z]+)-.*")
    with pytest.raises(ValueError, match="can take for ever"):
        compiled_for_debezium(r"(\w+\s?)+")


@pytest.mark.parametrize(
    "written", [{"when": {"payload": {"regex": "a*a*a*b"}}}, {"key": "{payload|regex:a*a*a*b}"}], ids=["when", "key"]
)
def test_a_text_that_is_too_long_refuses_the_record_and_is_not_shown(written: dict[str, Any]) -> None:
    rules, long = router(written, {}), RECORD._replace(payload=b"a" * 1000)
    assert rules.route(RECORD._replace(payload=b"a" * 500 + b"b"))
    said = "cannot be routed: the regular expression 'a*a*a*b' could take minutes for a text of 1,000 characters"
    asked: list[Callable[[OutboxRecord], object]] = [rules.route, lambda record: [*rules.verdicts(record)]]
    for ask in [*asked, *([rules.topics] if "when" in written else [])]:
        with pytest.raises(Unroutable) as caught:
            ask(long)
        assert said in str(caught.value)
        assert "aaaa" not in f"{caught.value} {caught.value.hint}"
