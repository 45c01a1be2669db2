"""The size of a payload, as the writer reckons it, beside what PostgreSQL prints."""

import json
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.database import Database
from walrelay.outbox import Event, EventTooLarge, Json, Outbox
from walrelay.outbox.payload import most_bytes

_TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(_VALUES))
def test_it_is_never_below_what_postgres_prints(database: Database, values: list[object]) -> None:
    for separators, ascii_only in (((",", ":"), True), ((", ", ": "), False)):
        texts = [json.dumps(value, separators=separators, ensure_ascii=ascii_only) for value in values]
        query = "SELECT octet_length(text::jsonb::text) FROM unnest(%s::text[]) AS text"
        for text, (size,) in zip(texts, database.execute(query, [texts]), strict=True):
            assert most_bytes(text.encode()) >= size, text


def test_a_number_with_an_exponent_counts_with_all_its_digits(database: Database) -> None:
    for text in ("1e9", "[1E+100, 1e-100]", "-1.5e300", '{"1e5": "1e5"}'):
        ((size,),) = database.execute("SELECT octet_length(%s::jsonb::text)", [text])
        assert size <= most_bytes(text.encode()) <= size + 8


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"a":1e300000000}', ValueError),
        ('{"a":1e999999999999}', ValueError),
        ('{"a":-1e99999999999999999999}', ValueError),
        ('{"a":1e-300000000}', ValueError),
        ("[" + ",".join(["1e131071"] * 100) + "]", EventTooLarge),
    ],
)
def test_an_exponent_takes_no_memory(text: str, error: type[Exception]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(error):
            Outbox().emit(None, Event(aggregate_type="o", aggregate_id=1, type="t", payload=Json(text)))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_numbers_are_refused_where_postgres_refuses_them(database: Database) -> None:
    for text in ("1e131071", "-9.99e131071", "1e-16383", "0e5", "0e-16383", "12e-3"):
        ((size,),) = database.execute("SELECT octet_length(%s::jsonb::text)", [text])
        assert size <= most_bytes(text.encode()) <= size + 2
    for text in ("1e131072", "1e999999"):
        with pytest.raises(Exception, match="overflow"):
            database.execute("SELECT %s::jsonb", [text])
        with pytest.raises(ValueError, match="none of PostgreSQL's"):
            most_bytes(text.encode())
