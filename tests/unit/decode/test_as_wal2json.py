"""The lines of wal2json from frames; tests/integration/test_tail_as_wal2json.py compares with the plugin itself."""

from collections.abc import Sequence

import pytest

from tests import pgoutput_encoder as server
from walrelay.decode.as_wal2json import ColumnType, PluginLines, RenderedLines
from walrelay.decode.contract import Outbox
from walrelay.decode.lines import Line, Lines, Printed
from walrelay.errors import ProtocolError
from walrelay.lsn import LSN
from walrelay.model import Committed, Idle
from walrelay.wire.frames import keepalive, xlogdata

B, C = Line(b'{"action":"B"}', record=False), Line(b'{"action":"C"}', record=False)
RELATION = server.relation(7, "public", "outbox", [("id", 23)])
OTHER = server.relation(8, "public", "other", [("id", 23)])


def names(columns: Sequence[ColumnType]) -> list[str]:
    return [f"type {oid}" if then is None else ".".join(then) for oid, _, then in columns]


def row(value: int) -> Line:
    return Line(
        b'{"action":"I","schema":"public","table":"outbox","columns":[{"name":"id","type":"type 23","value":%d}]}'
        % value
    )


def message(prefix: str, *, transactional: bool = True) -> bytes:
    flag = "true" if transactional else "false"
    return f'{{"action":"M","transactional":{flag},"prefix":"{prefix}","content":"x"}}'.encode()


def read(lines: Lines, *bodies: bytes) -> list[Printed]:
    """`lsn` of the frames counts from 100."""
    return [item for lsn, body in enumerate(bodies, 100) for item in lines.read(xlogdata(lsn, lsn, body))]


@pytest.fixture
def rendered() -> RenderedLines:
    return RenderedLines(Outbox(prefix="walrelay"), names)


@pytest.fixture
def plugin() -> PluginLines:
    return PluginLines("walrelay")


def test_rows_of_the_outbox_are_rendered_between_b_and_c(rendered: RenderedLines) -> None:
    bodies = [
        server.begin(200),
        OTHER,
        server.insert(8, [b"0"]),
        RELATION,
        server.insert(7, [b"1"]),
        server.insert(8, [b"0"]),
        server.update(7, [b"5"]),
        server.insert(7, [b"2"]),
        server.commit(200, 220),
    ]
    assert read(rendered, *bodies) == [B, row(1), row(2), C, Committed(LSN(220))]


def test_a_transaction_without_a_record_prints_nothing(rendered: RenderedLines, plugin: PluginLines) -> None:
    bodies = [server.begin(200), OTHER, server.insert(8, [b"0"]), server.message("of others", b"x")]
    assert read(rendered, *bodies, server.commit(200, 220)) == [Idle(LSN(220))]
    assert read(plugin, B.text, message("of others"), C.text) == [Idle(LSN(102))]


def test_the_plugins_own_lines_pass_unchanged(plugin: PluginLines) -> None:
    lines = [row(1).text, message("walrelay"), message("walrelay 2"), row(2).text]
    assert read(plugin, B.text, *lines, C.text) == [
        B, row(1), Line(message("walrelay")), row(2), C, Committed(LSN(105)),
    ]  # fmt: skip


def test_a_message_outside_any_transaction_is_a_record_of_its_own(rendered: RenderedLines, plugin: PluginLines) -> None:
    line = Line(message("walrelay", transactional=False))
    assert read(plugin, line.text) == [line, Idle(LSN(100))]
    assert read(rendered, server.message("walrelay", b"x", lsn=90, transactional=False)) == [line, Idle(LSN(90))]


def test_without_a_prefix_no_message_is_a_record() -> None:
    assert read(PluginLines(None), B.text, message("walrelay"), C.text) == [Idle(LSN(102))]
    rendered = RenderedLines(Outbox(prefix=None), names)
    bodies = [server.begin(200), server.message("walrelay", b"x"), server.commit(200, 220)]
    assert read(rendered, *bodies) == [Idle(LSN(220))]


def test_a_keepalive_inside_a_transaction_says_nothing(rendered: RenderedLines, plugin: PluginLines) -> None:
    for lines, begin in ((rendered, server.begin(200)), (plugin, B.text)):
        assert list(lines.read(keepalive(300))) == [Idle(LSN(300))]
        assert read(lines, begin) == []
        assert list(lines.read(keepalive(300))) == []


@pytest.mark.parametrize(
    "bodies",
    [
        [server.begin(200), server.begin(200)],
        [server.commit(200, 220)],
        [server.begin(200), server.insert(7, [b"1"])],
        [RELATION, server.insert(7, [b"1"])],
        [server.begin(200), RELATION, server.insert(7, [b"1", b"2"])],
        [server.message("walrelay", b"x")],
        [b"?"],
        [b""],
    ],
)
def test_what_the_protocol_does_not_allow_is_an_error(rendered: RenderedLines, bodies: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        read(rendered, *bodies)


@pytest.mark.parametrize(
    "bodies",
    [
        [B.text, B.text],
        [C.text],
        [row(1).text],
        [message("walrelay")],
        [B.text, b'{"action":"U"}'],
        [b""],
        [b'{"action":"B","xid":7}'],
    ],
)
def test_a_line_of_the_plugin_that_was_not_asked_for_is_an_error(plugin: PluginLines, bodies: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        read(plugin, *bodies)


def test_a_type_has_the_name_that_the_stream_gave_it(rendered: RenderedLines) -> None:
    announced = b"Y" + (23).to_bytes(4) + b"odd\0mood\0"
    begin, *_ = read(rendered, server.begin(200), announced, RELATION, server.insert(7, [b"1"]))[1:]
    assert isinstance(begin, Line)
    assert b'"type":"odd.mood"' in begin.text
    with pytest.raises(ProtocolError, match="a Type message"):
        read(rendered, announced + b"more")
    with pytest.raises(ProtocolError, match="a Type message"):
        read(rendered, announced[:-1])
