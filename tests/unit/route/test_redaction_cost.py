"""The cost of a redaction: in proportion to the size of the payload, however it is nested and whatever is redacted.

Characters that the decoder reads are counted, so the tests need no clock.
"""

from typing import Any

import pytest

from walrelay.json_text import DEEPEST
from walrelay.route.rules import payloads


class CountingDecoder:
    def __init__(self, decoder: Any) -> None:
        self.decoder, self.read = decoder, 0

    def raw_decode(self, text: str, at: int) -> tuple[Any, int]:
        found, end = self.decoder.raw_decode(text, at)
        self.read += end - at
        return found, end


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> CountingDecoder:
    decoder = CountingDecoder(payloads._DECODER)
    monkeypatch.setattr(payloads, "_DECODER", decoder)
    return decoder


WIDE = '"' + "x" * 90 + '",'
DEEP = 400


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[" * DEEP + "[" + WIDE * 2_000 + "1]" + "]" * DEEP, ("customer", "email")),
        ('{"a":' * DEEP + '{"z": [' + WIDE * 2_000 + "1]}" + "}" * DEEP, ("a",) * DEEP + ("email",)),
        ("[" + '{"email": "x"}, ' * 5_000 + "{}]", ("email",)),
    ],
    ids=["lists in lists", "objects in objects", "a list of objects"],
)
def test_a_redaction_reads_each_character_once(text: str, path: tuple[str, ...], counting: CountingDecoder) -> None:
    payloads.redacted(text, [path])
    assert 0 < counting.read <= len(text)


def test_several_paths_are_found_in_one_pass(counting: CountingDecoder) -> None:
    text = "[" + '{"a": {"b": 1, "c": 2}, "d": 3}, ' * 1_000 + "{}]"
    found = payloads.redacted(text, [("a", "b"), ("a", "c"), ("d",)])
    assert found == text.replace("1", "null").replace("2", "null").replace("3", "null")
    assert counting.read <= len(text)


def test_the_deepest_payload_is_redacted_below_a_deep_stack() -> None:
    def below(calls: int) -> str:
        return below(calls - 1) if calls else payloads.redacted(text, [("email",)])

    text = "[" * (DEEPEST - 1) + '{"email": 1}' + "]" * (DEEPEST - 1)
    assert below(250) == text.replace("1", "null")
    with pytest.raises(ValueError, match="nested too deeply"):
        payloads.redacted(f"[{text}]", [("email",)])
