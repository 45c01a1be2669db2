"""The rules of the pgoutput decoder, message by message."""

import pytest

from tests import pgoutput_encoder as server
from walrelay.decode.contract import Columns, OutboxLayout, Skips
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.errors import ProtocolError, Undecodable
from walrelay.lsn import LSN
from walrelay.model import Committed, Event, Idle, OutboxRecord, Skipped, Undecoded
from walrelay.wire.frames import keepalive, xlogdata

ONLY_REQUIRED = Columns(**dict.fromkeys(Columns._fields))._replace(id="id", payload="payload")
OUTBOX = OutboxLayout(prefix="walrelay", columns=ONLY_REQUIRED)
TEXT, BYTEA, JSONB, INT4, NUMERIC = 25, 17, 3802, 23, 1700

BEGIN, COMMIT = server.begin(300, committed_at=1_000_000), server.commit(300, 356)
RELATION = server.relation(7, "public", "outbox", [("id", TEXT), ("payload", JSONB)])


def frame(body: bytes) -> bytes:
    return body if body[:1] == b"k" else xlogdata(0, 0, body)


def decode(
    *bodies: bytes, outbox: OutboxLayout = OUTBOX, binary: bool = False, skips: Skips = frozenset()
) -> list[Event]:
    decoder = PgoutputDecoder(outbox, binary=binary, skips=skips)
    return [event for body in bodies for event in decoder.decode(frame(body))]


def record(*bodies: bytes, outbox: OutboxLayout = OUTBOX, binary: bool = False) -> OutboxRecord:
    event = decode(BEGIN, *bodies, outbox=outbox, binary=binary)[0]
    assert isinstance(event, OutboxRecord)
    return event


def content(event: str) -> bytes:
    return b'{"id": "%s", "payload": {"n":  1.50}}' % event.encode()


def test_a_transaction_is_its_rows_under_its_commit_position_and_then_its_end() -> None:
    events = decode(BEGIN, RELATION, server.insert(7, [b"1", b"{}"]), server.insert(7, [b"2", None]), COMMIT)
    assert events == [
        OutboxRecord(LSN(300), 0, 1_000_000, "1", None, None, None, b"{}", None, None, None, None),
        OutboxRecord(LSN(300), 1, 1_000_000, "2", None, None, None, None, None, None, None, None),
        Committed(LSN(356)),
    ]


def test_every_role_is_read_from_its_column_wherever_it_stands() -> None:
    columns = Columns(*(f"the {role}" for role in Columns._fields))
    names = ["something", *reversed(columns), "else"]
    values = [b"?", *(name.encode() for name in reversed(Columns._fields)), b"?"]
    relation = server.relation(7, "public", "outbox", [(str(name), TEXT) for name in names])
    found = record(relation, server.insert(7, values), outbox=OutboxLayout(prefix="walrelay", columns=columns))
    assert found[3:-1] == tuple(role.encode() if role in ("payload", "headers") else role for role in Columns._fields)


def test_rows_and_messages_are_numbered_together_in_the_order_of_the_stream() -> None:
    events = decode(
        *(BEGIN, server.message("walrelay", content("m1")), RELATION, server.insert(7, [b"r1", b"1"])),
        *(server.message("foreign", b"?"), server.message("walrelay", content("m2")), COMMIT),
    )
    assert [(event.id, event.ordinal) for event in events if isinstance(event, OutboxRecord)] == [
        ("m1", 0),
        ("r1", 1),
        ("m2", 2),
    ]


def test_each_transaction_counts_from_zero() -> None:
    row = server.insert(7, [b"1", b"1"])
    events = decode(BEGIN, RELATION, row, row, COMMIT, server.begin(356), row, server.commit(356, 400))
    assert [event.ordinal for event in events if isinstance(event, OutboxRecord)] == [0, 1, 0]


def test_a_payload_that_is_a_message_is_taken_verbatim() -> None:
    assert record(server.message("walrelay", content("m"))).payload == b'{"n":  1.50}'


def test_a_transaction_without_an_outbox_record_is_idle_progress() -> None:
    other = server.relation(8, "public", "other", [("id", TEXT)])
    assert decode(BEGIN, COMMIT) == [Idle(LSN(356))]
    assert decode(BEGIN, other, server.insert(8, [b"1"]), server.message("foreign", b""), COMMIT) == [Idle(LSN(356))]


def test_a_table_of_the_same_name_in_another_schema_is_another_table() -> None:
    relation = server.relation(8, "audit", "outbox", [("x", TEXT)])
    assert decode(BEGIN, relation, server.insert(8, [b"1"]), COMMIT) == [Idle(LSN(356))]


def test_a_keepalive_between_transactions_is_idle_progress() -> None:
    assert decode(keepalive(200), BEGIN, COMMIT, keepalive(400)) == [Idle(LSN(200)), Idle(LSN(356)), Idle(LSN(400))]


def test_a_keepalive_between_begin_and_commit_says_nothing() -> None:
    """Section D: D3. It must not confirm what is half received."""
    row = server.insert(7, [b"1", b"1"])
    events = decode(BEGIN, keepalive(400), RELATION, keepalive(400), row, keepalive(400), COMMIT)
    assert [type(event) for event in events] == [OutboxRecord, Committed]


def test_updates_deletes_truncates_origins_and_types_are_passed_over() -> None:
    passed = [
        server.origin(1, "node"),
        server.data_type(16500, "public", "mood"),
        server.update(7, [b"1", b"2"]),
        server.delete(7, [b"1", None]),
        server.truncate(7),
    ]
    assert decode(BEGIN, RELATION, *passed, COMMIT) == [Idle(LSN(356))]


def test_a_relation_that_comes_again_is_read_anew() -> None:
    """Columns are found by the name they have at that point of the WAL (guarantees A32)."""
    swapped = server.relation(7, "public", "outbox", [("payload", JSONB), ("added", TEXT), ("id", TEXT)])
    events = decode(BEGIN, RELATION, server.insert(7, [b"1", b"a"]), swapped, server.insert(7, [b"b", b"x", b"2"]))
    assert [(event.id, event.payload) for event in events if isinstance(event, OutboxRecord)] == [
        ("1", b"a"),
        ("2", b"b"),
    ]


@pytest.mark.parametrize(("present", "role"), [("body", "payload"), ("uid", "id")])
def test_a_column_that_went_missing_stops_the_stream(present: str, role: str) -> None:
    """Section D: D29, rows were skipped on a schema mismatch while the position went on."""
    names = [present, "payload" if role == "id" else "id"]
    relation = server.relation(7, "public", "outbox", [(name, TEXT) for name in names])
    with pytest.raises(
        Undecodable, match=f"no column '{role}' for the role {role} at 0/12C:0; it has: {', '.join(names)}"
    ):
        decode(BEGIN, relation, server.insert(7, [b"1", b"2"]))


def test_a_position_that_is_to_be_skipped_is_passed_over_if_it_cannot_be_read_and_only_then() -> None:
    """guarantees A46: skipping is the operator's word, about one position; the rows behind it keep theirs."""
    rows = [server.insert(7, [b"1", b"a"]), server.insert(7, [None, b"b"]), server.insert(7, [b"3", b"c"])]
    skips = frozenset({(LSN(300), 0), (LSN(300), 1)})
    first, skipped, third, committed = decode(BEGIN, RELATION, *rows, COMMIT, skips=skips)
    assert isinstance(first, OutboxRecord)
    assert isinstance(skipped, Skipped)
    assert (skipped.lsn, skipped.ordinal) == (LSN(300), 1)
    assert "has no id" in skipped.why
    assert isinstance(third, OutboxRecord)
    assert (first.position, third.position) == ("0/12C:0", "0/12C:2")
    assert committed == Committed(LSN(356))


def test_all_rows_of_a_transaction_that_cannot_be_read_are_passed_over_if_it_is_named_as_a_whole() -> None:
    relation = server.relation(7, "public", "outbox", [("uid", TEXT), ("payload", TEXT)])
    row = server.insert(7, [b"1", b"a"])
    *skipped, committed = decode(BEGIN, relation, row, row, COMMIT, skips=frozenset({(LSN(300), None)}))
    assert [(each.lsn, each.ordinal) for each in skipped if isinstance(each, Skipped)] == [(LSN(300), 0), (LSN(300), 1)]
    assert committed == Committed(LSN(356))


def test_a_row_without_an_id_is_undecodable() -> None:
    with pytest.raises(Undecodable, match=r"public\.outbox at 0/12C:1 has no id"):
        decode(BEGIN, RELATION, server.insert(7, [b"1", b""]), server.insert(7, [None, b"1"]))


def test_a_partition_under_its_roots_name_is_the_outbox_and_under_its_own_is_not() -> None:
    """The root's Relation and the partition's come with publish_via_partition_root, and rows have the root's OID."""
    partition = server.relation(8, "public", "outbox_2026", [("id", TEXT), ("payload", JSONB)])
    events = decode(
        BEGIN, RELATION, partition, server.insert(7, [b"1", b"{}"]), server.insert(8, [b"2", b"{}"]), COMMIT
    )
    assert [event.id for event in events if isinstance(event, OutboxRecord)] == ["1"]


def test_text_that_is_not_utf_8_keeps_its_bytes() -> None:
    found = record(RELATION, server.insert(7, [b"caf\xe9", b"\xff"]))
    assert (found.id.encode("utf-8", "surrogateescape"), found.payload) == (b"caf\xe9", b"\xff")


@pytest.mark.parametrize("binary", [False, True])
def test_a_bytea_payload_is_its_bytes(binary: bool) -> None:
    relation = server.relation(7, "public", "outbox", [("id", TEXT), ("payload", BYTEA)])
    values = [b"1", b"\0\xff" if binary else b"\\x00ff"]
    assert record(relation, server.insert(7, values, kind=b"b" if binary else b"t"), binary=binary).payload == b"\0\xff"


@pytest.mark.parametrize("text", [b"\\x0", b"\\xzz", b"\\000", b"", b"\\x\xc3\xa9"])
def test_bytea_text_that_is_not_hex_is_an_error_with_column_row_and_position(text: bytes) -> None:
    relation = server.relation(7, "public", "outbox", [("id", TEXT), ("payload", BYTEA)])
    what = r"column 'payload' of public.outbox cannot be read in the row with id 1 at [0-9A-F]+/[0-9A-F]+:0: "
    with pytest.raises(Undecodable, match=what) as caught:
        record(relation, server.insert(7, [b"1", text]))
    assert "walrelay skip --position" in caught.value.hint


@pytest.mark.parametrize(("id_", "named"), [(b"\0\0\0\1", "payload"), (b"\1", "id")])
def test_a_binary_value_of_a_wrong_size_is_an_error_with_column_row_and_position(id_: bytes, named: str) -> None:
    relation = server.relation(7, "public", "outbox", [("id", INT4), ("payload", JSONB)])
    with pytest.raises(Undecodable, match=f"column '{named}' of public.outbox cannot be read in the row with id "):
        record(relation, server.insert(7, [id_, b"\2{}"], kind=b"b"), binary=True)


def test_binary_values_come_out_as_text() -> None:
    relation = server.relation(7, "public", "outbox", [("id", INT4), ("payload", JSONB), ("headers", JSONB)])
    outbox = OutboxLayout(prefix="walrelay", columns=ONLY_REQUIRED._replace(headers="headers"))
    row = server.insert(7, [b"\0\0\0\x2a", b'\1{"a": 1}', b"\1{}"], kind=b"b")
    found = record(relation, row, outbox=outbox, binary=True)
    assert (found.id, found.payload, found.headers) == ("42", b'{"a": 1}', b"{}")


def test_a_type_that_is_not_read_in_binary_is_undecodable_with_a_way_out() -> None:
    relation = server.relation(7, "public", "outbox", [("id", NUMERIC), ("payload", TEXT)])
    with pytest.raises(Undecodable, match=r"'id' .* OID 1700") as caught:
        decode(BEGIN, relation, server.insert(7, [b"1", b"2"]), binary=True)
    assert "source.binary to false" in caught.value.hint
    assert decode(BEGIN, relation, COMMIT) == [Idle(LSN(356))]


def test_a_column_that_plays_no_role_may_have_any_type() -> None:
    relation = server.relation(7, "public", "outbox", [("id", TEXT), ("payload", TEXT), ("amount", NUMERIC)])
    row = server.insert(7, [b"1", b"x", b"\0\1\0\0\0\0\0\0\0\1"], kind=b"b")
    assert record(relation, row, binary=True).payload == b"x"


@pytest.mark.parametrize("binary", [False, True])
def test_an_optional_column_may_be_missing_and_of_any_type(binary: bool) -> None:
    columns = ONLY_REQUIRED._replace(tenant_id="tenant")
    outbox = OutboxLayout(prefix="walrelay", columns=columns, optional=frozenset({"tenant_id"}))
    kind = b"b" if binary else b"t"
    for type_, tenant in ((TEXT, "42"), (NUMERIC, None if binary else "42"), (None, None)):
        listed = [("id", TEXT), ("payload", TEXT), *([("tenant", type_)] if type_ else [])]
        row = server.insert(7, [b"1", b"x", b"42"][: len(listed)], kind=kind)
        found = record(server.relation(7, "public", "outbox", listed), row, outbox=outbox, binary=binary)
        assert (found.payload, found.tenant_id) == (b"x", tenant)


def test_a_message_with_our_prefix_that_is_not_transactional_stops_the_stream_unless_it_is_to_be_skipped() -> None:
    loose = server.message("walrelay", content("m"), lsn=0x500, transactional=False)
    with pytest.raises(Undecodable, match="non-transactional logical message with the prefix 'walrelay' at 0/500"):
        decode(loose)
    events = decode(loose, outbox=OUTBOX._replace(skip_non_transactional=True))
    assert [type(event) for event in events] == [Skipped]
    assert decode(server.message("foreign", b"", transactional=False)) == []


def test_a_message_that_is_no_outbox_record_comes_as_it_is_and_the_rows_behind_it_keep_their_ordinals() -> None:
    undecoded, behind, _ = decode(
        BEGIN, RELATION, server.message("walrelay", b"\xff\0"), server.insert(7, [b"1", b"a"]), COMMIT
    )
    assert isinstance(undecoded, Undecoded)
    assert (undecoded.position, undecoded.prefix, undecoded.content) == ("0/12C:0", "walrelay", b"\xff\0")
    assert "the logical message at 0/12C:0 is not an outbox record" in undecoded.reason
    assert "`walrelay skip --position 0/12C:0`" in undecoded.hint
    assert isinstance(behind, OutboxRecord)
    assert behind.ordinal == 1


def test_a_message_that_is_no_outbox_record_is_passed_over_where_it_was_named() -> None:
    skipped, _ = decode(BEGIN, server.message("walrelay", b"?"), COMMIT, skips=frozenset({(LSN(300), 0)}))
    assert isinstance(skipped, Skipped)
    assert (skipped.lsn, skipped.ordinal) == (LSN(300), 0)


def test_without_a_prefix_no_logical_message_is_ours() -> None:
    outbox = OUTBOX._replace(prefix=None)
    assert decode(BEGIN, server.message("walrelay", b"?"), COMMIT, outbox=outbox) == [Idle(LSN(356))]


ROW = server.insert(7, [b"1", b"2"])


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([BEGIN, BEGIN], id="begin in a transaction"),
        pytest.param([COMMIT], id="commit outside"),
        pytest.param([BEGIN, server.commit(299, 356)], id="commit of another transaction"),
        pytest.param([BEGIN, COMMIT, COMMIT], id="commit twice"),
        pytest.param([BEGIN, ROW], id="row before its relation"),
        pytest.param([RELATION, ROW], id="row outside"),
        pytest.param([BEGIN, RELATION, COMMIT, ROW], id="row after the commit"),
        pytest.param([BEGIN, RELATION, server.insert(7, [b"1"])], id="row too narrow"),
        pytest.param([BEGIN, RELATION, server.insert(7, [b"1", b"2", b"3"])], id="row too wide"),
        pytest.param([server.message("walrelay", content("m"))], id="message outside"),
        pytest.param([b"S"], id="unknown type"),
        pytest.param([b""], id="no type"),
    ],
)
def test_what_the_protocol_does_not_allow_is_a_protocol_error(bodies: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        decode(*bodies)


@pytest.mark.parametrize("raw", [b"", b"x", b"r" + bytes(33), b"w", b"w" + bytes(23), b"k"])
def test_a_frame_that_is_none_is_a_protocol_error(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(PgoutputDecoder(OUTBOX).decode(raw))


def test_a_new_decoder_knows_no_relation() -> None:
    """The server announces relations again on each connection; an old one would be a guess."""
    decoder = PgoutputDecoder(OUTBOX)
    for body in (BEGIN, RELATION, COMMIT):
        decoder.decode(frame(body))
    with pytest.raises(ProtocolError, match="not announced"):
        decode(BEGIN, ROW)
