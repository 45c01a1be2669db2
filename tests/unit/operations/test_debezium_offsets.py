"""Offsets as Debezium stores them: what was published, and what is no such file."""

import json
import re
from typing import Any

import pytest

from walrelay.errors import Fatal
from walrelay.lsn import LSN, ZERO
from walrelay.operations.takeover import Offset, chosen, offsets

# What Debezium Server 3.6.3 wrote, by java.util.HashMap's own serialization; `%s` are the byte arrays.
HEAD = (
    b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1\x03\x00\x02F\x00\nloadFactorI\x00\t"
    b"thresholdxp?@\x00\x00\x00\x00\x00\x0cw\x08\x00\x00\x00\x10\x00\x00\x00"
)
STORED = (
    b'{"lsn_proc":1099247913024,"messageType":"INSERT","lsn_commit":1099247909472,"lsn":1099247913024,"txId":882,'
    b'"ts_usec":1795410444477357}'
)


def serialized(*pairs: tuple[bytes, bytes]) -> bytes:
    arrays = [text for pair in pairs for text in pair]
    first, other = b"ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0\x02\x00\x00xp", b"uq\x00~\x00\x02"
    written = (head + len(text).to_bytes(4) + text for head, text in zip([first, *[other] * 99], arrays, strict=False))
    return HEAD + bytes([len(pairs)]) + b"".join(written) + b"x"


def answer(**offset: Any) -> bytes:
    return json.dumps({"offsets": [{"partition": {"server": "app"}, "offset": offset}]}).encode()


def test_the_file_of_debezium_server_is_read() -> None:
    found = offsets(serialized((b'["kafka",{"server":"app"}]', STORED)), "offsets.dat")
    assert found == {"app": Offset(LSN(1099247909472), 882, LSN(1099247913024), 1)}


def test_each_connector_has_its_own() -> None:
    content = serialized((b'["kafka",{"server":"a"}]', STORED), (b'["kafka",{"server":"b"}]', b'{"lsn":1}'))
    found = offsets(content, "offsets.dat")
    assert chosen(found, "b") == Offset(ZERO)
    assert chosen(found, "a").xid == 882
    with pytest.raises(Fatal, match="there are offsets of 'a', 'b', and none of None"):
        chosen(found, None)
    with pytest.raises(Fatal, match="and none of 'c'"):
        chosen(found, "c")
    strange: Any = {5: Offset(ZERO), "a": Offset(ZERO)}
    with pytest.raises(Fatal, match="there are offsets of 'a', 5, and none of 'c'"):
        chosen(strange, "c")


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ({"lsn": 9, "txId": 5, "lsn_commit": 7, "messageType": "UPDATE"}, Offset(LSN(7), 5, LSN(9))),
        ({"lsn": 9, "txId": 5, "lsn_commit": 7, "lsn_events_processed": 3}, Offset(LSN(7), 5, LSN(9), 3)),
        ({"lsn": 9, "txId": 5, "messageType": "INSERT"}, Offset(ZERO, 5, LSN(9))),  # the first transaction
        ({"lsn": 9, "txId": 5, "lsn_commit": 9, "messageType": "COMMIT"}, Offset(LSN(9))),  # a heartbeat's
        ({"lsn": 9, "txId": 5, "lsn_commit": 7, "messageType": "BEGIN"}, Offset(LSN(7))),
        ({"lsn": 9, "txId": 5, "lsn_commit": 9, "messageType": "MESSAGE"}, Offset(ZERO)),
        ({"lsn": 9, "snapshot": "INITIAL", "last_snapshot_record": True}, Offset(ZERO)),
    ],
)
def test_what_kafka_connect_answers_is_read(offset: dict[str, Any], expected: Offset) -> None:
    assert offsets(answer(**offset), "offsets.json") == {"app": expected}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "f holds no offsets of Debezium"),
        (b"[]", "f holds no offsets of Debezium"),
        (b'{"offsets": []}', "f holds no offset"),
        (b'{"offsets": [{"partition": {}, "offset": {}}]}', "f holds an offset that is not of Debezium's"),
        (b'{"offsets": [{"partition": {"server": "a"}, "offset": null}]}', "f holds an offset that is not of"),
        (answer(lsn="x", txId="y"), "f holds an offset that is not of"),
        (answer(lsn=float("inf"), txId=5), "f holds an offset that is not of"),
        (serialized((b"k", b"v")), "f holds no offsets of Debezium"),
        (serialized((b'["kafka",{"server":"app"}]', b"null")), "f holds an offset that is not of"),
        (HEAD, "f holds no offset"),
        (serialized((b'["kafka",{"server":"app"}]', STORED))[:-40], "f holds no offsets of Debezium"),
        (answer(snapshot="INITIAL", lsn=1), "Debezium was stopped in its snapshot"),
    ],
)
def test_what_cannot_be_taken_over_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(Fatal, match=re.escape(message)):
        offsets(content, "f")
