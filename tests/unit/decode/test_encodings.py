"""The content of a logical message in UTF-8, or an error where the meaning of its bytes is not known."""

import pytest

from walrelay.decode.contract import Columns
from walrelay.decode.messages import in_utf8, message_fields
from walrelay.errors import Undecodable

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("encoding", ["UTF8", "SQL_ASCII", "LATIN1", "EUC_JP", "MULE_INTERNAL"])
def test_the_mark_says_utf_8_and_ascii_is_the_same_everywhere(encoding: str) -> None:
    assert in_utf8(MARK + "é".encode(), encoding) == "é".encode()
    assert in_utf8(b'{"a": 1}', encoding) == b'{"a": 1}'


def test_bytes_that_happen_to_be_utf_8_are_read_in_the_databases_encoding() -> None:
    assert in_utf8("Ã©".encode("latin-1"), "LATIN1") == "Ã©".encode()
    assert in_utf8("Ã©".encode("latin-1"), "UTF8") == "é".encode()


@pytest.mark.parametrize(("encoding", "content"), [("EUC_JP", b"\xc6\xfc"), ("WIN1253", b"\xaa"), ("LATIN6x", b"\xe9")])
def test_bytes_of_unknown_meaning_are_undecodable_at_their_position(encoding: str, content: bytes) -> None:
    with pytest.raises(Undecodable, match="the logical message at 0/1:2 cannot be read"):
        message_fields(b'{"id": "1", "payload": "' + content + b'"}', "0/1:2", encoding)


def test_the_roles_of_a_message_in_another_encoding_are_in_utf_8() -> None:
    content = '{"id": "1", "aggregate_id": "é", "payload": {"a": "é"}}'.encode("latin-1")
    fields = dict(zip(Columns._fields, message_fields(content, "0/1:0", "LATIN1"), strict=True))
    assert (fields["aggregate_id"], fields["payload"]) == ("é".encode(), '{"a": "é"}'.encode())
