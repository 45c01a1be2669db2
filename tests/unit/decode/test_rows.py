"""Rows of the table to records."""

import pytest

from walrelay.decode.contract import Columns, Outbox
from walrelay.decode.rows import RowDecoder
from walrelay.errors import Undecodable
from walrelay.lsn import LSN

POINT = LSN.parse("0/1000")
TYPES = {"id": 23, "payload": 17, "headers": 3802, "kind": 25}
OUTBOX = Outbox(
    columns=Columns(aggregate_type="kind", aggregate_id=None, type="kind", topic=None, tenant_id=None, created_at=None)
)


def test_values_become_the_roles_whose_columns_they_are() -> None:
    decoder = RowDecoder(OUTBOX, TYPES, POINT)
    assert decoder.columns == ["id", "kind", "kind", "payload", "headers"]
    record = decoder.decode([b"7", b"order", b"order", b"\\x00ff", b'{"a": 1}'], 5)
    assert (record.id, record.aggregate_type, record.type) == ("7", "order", "order")
    assert (record.payload, record.headers, record.aggregate_id) == (b"\x00\xff", b'{"a": 1}', None)
    assert record.committed_at == 5


def test_rows_are_numbered_below_the_consistent_point_where_no_commit_begins_or_ends() -> None:
    decoder = RowDecoder(OUTBOX, TYPES, POINT)
    records = [decoder.decode([b"7", None, None, None, None], 0) for _ in range(3)]
    assert [record.position for record in records] == ["0/FFE:0", "0/FFE:1", "0/FFE:2"]
    assert all(record.commit_lsn % 8 not in (0, 7) for record in records)


def test_a_row_without_an_id_and_a_role_without_its_column_are_refused_as_in_the_stream() -> None:
    with pytest.raises(Undecodable, match="has no id"):
        RowDecoder(OUTBOX, TYPES, POINT).decode([None] * 5, 0)
    with pytest.raises(Undecodable, match="no column 'headers'"):
        RowDecoder(OUTBOX, {"id": 23, "payload": 17, "kind": 25}, POINT)
