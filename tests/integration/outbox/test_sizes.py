"""The size of a payload, as the writer reckons it, beside what PostgreSQL prints."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.database import Database
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
