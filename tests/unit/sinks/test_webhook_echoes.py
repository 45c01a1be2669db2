"""What an answer repeats of a request is not told."""

import pytest

from walrelay.model import Message
from walrelay.sinks.webhook.echoes import without_echo

EVENT = b'{"card": "4111 1111", "cents": 123456, "of": [{"name": "M\\u00fcller"}], "paid": true, "n": 1}'


def told(text: str, value: bytes | None = EVENT) -> str:
    headers = [("id", b"4711-e"), ("note", b"confidential"), ("empty", None)]
    return without_echo(text, Message("orders", b"k", value, headers, 0, 0), ["whsec_abcdef"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("card 4111 1111 is not known", "card *** is not known"),
        ("{'cents': 123456}", "{'cents': ***}"),
        ("Müller", "***"),
        ("note=confidential; id=4711-e", "note=***; id=4711-e"),
        ("signed with whsec_abcdef", "signed with ***"),
        ("paid is true, n is 1: not allowed", "paid is true, n is 1: not allowed"),
        ("", ""),
    ],
)
def test_values_are_hidden_and_all_else_is_said(answer: str, said: str) -> None:
    assert told(answer) == said


def test_a_payload_that_is_no_json_is_not_repeated_in_any_part() -> None:
    letter = b"Here is a secret sentence, in full."
    assert told("cannot read: a secret sentence, full stop", letter) == "cannot read:***full stop"
    assert told("cannot read it", letter) == "cannot read it"
    assert told("cannot read hush", b"hush") == "cannot read ***"


def test_the_beginning_of_a_long_value_is_hidden_too() -> None:
    long = "".join(chr(ord("a") + n % 26) * (n % 7) for n in range(3000))
    assert told(f"too long: {long[:500]}", b'{"text": "%s"}' % long.encode()) == "too long: ***"


def test_an_event_without_a_value_hides_nothing() -> None:
    assert told("no body", None) == "no body"
