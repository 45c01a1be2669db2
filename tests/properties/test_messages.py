"""Logical messages: any JSON payload is taken as the very text, whatever stands around it."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from walrelay.decode.contract import Columns
from walrelay.decode.messages import message_fields
from walrelay.errors import Undecodable

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
blanks = st.text(st.sampled_from(" \t\n\r"), max_size=3)
texts = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    json_values,
    st.booleans(),
    st.none() | st.integers(0, 2),
).filter(lambda text: text != "null")
strings = st.text(st.characters(codec="utf-8"), max_size=10)


@st.composite
def contents(draw: st.DrawFn) -> tuple[str, dict[str, bytes]]:
    """The content of a message, and the fields that it means."""
    members = {"id": draw(strings), "payload": draw(texts)}
    for role in draw(st.sets(st.sampled_from(sorted(set(Columns._fields) - {"id", "payload", "headers"})))):
        members[role] = draw(strings)
    if draw(st.booleans()):
        members["headers"] = draw(texts)
    written = []
    for role, value in draw(st.permutations(sorted(members.items()))):
        text = value if role in ("payload", "headers") else json.dumps(value, ensure_ascii=draw(st.booleans()))
        written.append(f'{draw(blanks)}"{role}"{draw(blanks)}:{draw(blanks)}{text}{draw(blanks)}')
    content = draw(blanks) + "{" + ",".join(written) + "}" + draw(blanks)
    return content, {role: value.encode("utf-8", "surrogatepass") for role, value in members.items()}


@given(contents())
def test_payload_and_headers_are_verbatim_and_the_rest_is_what_is_meant(content: tuple[str, dict[str, bytes]]) -> None:
    text, expected = content
    found = dict(zip(Columns._fields, message_fields(text.encode("utf-8", "surrogatepass"), "0/0:0"), strict=True))
    assert {role: value for role, value in found.items() if value is not None} == expected


@settings(max_examples=150)
@given(contents(), st.data())
def test_damaged_content_is_undecodable_or_fields_and_nothing_else(
    content: tuple[str, dict[str, bytes]], data: st.DataObject
) -> None:
    whole = content[0].encode("utf-8", "surrogatepass")
    at, to = sorted(data.draw(st.integers(0, len(whole))) for _ in range(2))
    try:
        found = message_fields(whole[:at] + data.draw(st.binary(max_size=6)) + whole[to:], "0/0:0")
    except Undecodable:
        return
    assert found[0] is not None
