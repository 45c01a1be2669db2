"""Columns without a role as headers and keys: each type is the same text in every way of reading."""

import pytest

from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox, header

COLUMNS = {
    "zoned": ("timestamptz", "2026-11-23 04:09:51.12+02", "{column.zoned|utc}", b"2026-11-23T02:09:51.12Z"),
    "local": ("timestamp", "2026-11-23 02:09:51", "{column.local|utc}", b"2026-11-23T02:09:51Z"),
    "early": ("timestamptz", "-infinity", "{column.early|utc}", None),
    "yes": ("boolean", True, "{column.yes|boolean}", b"true"),
    "no": ("boolean", False, "{column.no|boolean}", b"false"),
    "number": ("integer", -7, "{column.number}", b"-7"),
    "large": ("bigint", 2**62, "{column.large}", str(2**62).encode()),
    "amount": ("numeric(20, 4) NOT NULL DEFAULT 1", "12.5000", "{column.amount}", b"12.5000"),
    "uuid": ("uuid", "0190A0B0-0000-7000-8000-0000000000FF", "{column.uuid}", b"0190a0b0-0000-7000-8000-0000000000ff"),
    "tags": ("text[]", ["a b", "wallet_id=4,2"], "{column.tags|tag:wallet_id}", b"4,2"),
    "inside": ("jsonb", '{"user": {"id": 9}}', "{column.inside.user.id}", b"9"),
    "nothing": ("text", None, "{column.nothing}", None),
}
TEXT_MODE = {"amount", "tags"}  # one such column has the whole table read as text


@pytest.fixture(params=["all", "binary"])
def typed(make_outbox: OutboxMaker, request: pytest.FixtureRequest) -> Outbox:
    wanted = {name: each for name, each in COLUMNS.items() if request.param == "all" or name not in TEXT_MODE}
    columns = ", ".join(f"ADD {name} {type_}" for name, (type_, *_) in COLUMNS.items())
    make_outbox().database.execute(f"ALTER TABLE outbox {columns}")
    headers = {name: template for name, (_, _, template, _) in wanted.items()}
    return make_outbox(route={"key": "{aggregate_id|default:none}:{column.number|default:none}", "headers": headers})


def test_a_column_is_the_same_text_in_every_way_of_reading(typed: Outbox) -> None:
    names = ", ".join(COLUMNS)
    with typed.relay() as relay:
        typed.database.execute(
            f"INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, {names})"
            f" VALUES ('order', 'o-1', 'placed', '1', {', '.join(['%s'] * len(COLUMNS))})",
            [value for _, value, *_ in COLUMNS.values()],
        )
        typed.write(2)
        first, second = typed.messages(relay)
    found = {name: value for name, value in first.headers if name in COLUMNS}
    set_here = dict(typed.settings.route.headers)
    assert found == {name: text for name, (*_, text) in COLUMNS.items() if name in set_here and text is not None}
    assert (first.key, second.key) == (b"o-1:-7", b"2:none")
    assert {name for name, _ in second.headers if name in COLUMNS} <= {"amount"}
    assert header(second, "type") == b"placed"
