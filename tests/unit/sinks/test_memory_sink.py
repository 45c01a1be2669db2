"""The memory sink."""

from walrelay.model import Message, Receipt
from walrelay.sinks.memory import MemorySettings, MemorySink, plugin


def message(number: int) -> Message:
    return Message("t", None, b"%d" % number, [], 0)


def test_messages_are_kept_in_order_and_receipts_come_once() -> None:
    sink = MemorySink()
    assert all(sink.publish(message(number), ticket) for number, ticket in enumerate([0, 0, 1]))
    assert [each.value for each in sink.messages] == [b"0", b"1", b"2"]
    assert list(sink.receipts(0)) == [Receipt(0, 2), Receipt(1, 1)]
    assert list(sink.receipts(0)) == []


def test_only_the_latest_messages_are_kept_but_all_get_receipts() -> None:
    sink = plugin.open(MemorySettings(keep=2), None)
    assert isinstance(sink, MemorySink)
    for number in range(5):
        sink.publish(message(number), 7)
    assert [each.value for each in sink.messages] == [b"3", b"4"]
    assert list(sink.receipts(0)) == [Receipt(7, 5)]


def test_closing_twice_and_flushing_are_harmless() -> None:
    sink = MemorySink()
    sink.flush(1)
    sink.close()
    sink.close()
    assert sink.trouble() == ""


def test_the_doctor_says_that_it_forgets() -> None:
    (finding,) = plugin.examine(MemorySettings(keep=1), [])
    assert finding.verdict == "warning"
