"""What becomes of a refused message."""

from walrelay.model import Message, Refusal
from walrelay.publish import refused


def test_the_error_names_record_place_topic_reason_and_cure() -> None:
    headers: list[tuple[str, bytes | None]] = [("x", b"1"), ("id", b"42"), ("position", b"16/B374D848:0")]
    error = refused(Refusal(3, Message("orders", None, b"", headers, 0), "too large", "Make it smaller."))
    assert str(error) == "record 42 at 16/B374D848:0 was refused for topic 'orders': too large"
    assert error.hint == "Make it smaller."


def test_a_message_without_the_headers_is_still_an_error_that_can_be_read() -> None:
    error = refused(Refusal(0, Message("orders", None, None, [("id", None), ("position", b"\xff")], 0), "no", ""))
    assert str(error) == "record  at \ufffd was refused for topic 'orders': no"
    assert "record ? at ?" in str(refused(Refusal(0, Message("orders", None, None, [], 0), "no", "")))
