"""What every sink owes the relay: its calls, its receipts, its order, and how it does without its broker."""

from collections import Counter
from contextlib import closing
from statistics import median

from walrelay.testing.case import (
    NASTY_HEADERS,
    Case,
    answer,
    held,
    message,
    numbers,
    publish,
    receipts,
    seconds,
    settle,
)

_KEYS = ["a", "b", "c", "d"]
_MANY = 2000
_MARKER = 1_000_000


class ReceiptContract:
    """For a sink that keeps nothing a test could look at. A test gets its `Case` from a fixture of that name."""

    def test_receipts_count_each_transaction_exactly(self, case: Case) -> None:
        sizes = {7: 1, 8: 300, 9: 2, 12: 50}
        settled: Counter[int] = Counter()
        with closing(case.open()) as sink:
            for ticket, count in sizes.items():
                settled += publish(sink, case, range(count), ticket=ticket)
                settled += receipts(sink, 0)
            settled = settle(sink, sum(sizes.values()), settled) + receipts(sink, 0.1)
        assert settled == sizes, f"receipts {dict(settled)} for messages {sizes}"

    def test_close_may_be_called_twice(self, case: Case) -> None:
        sink = case.open()
        sink.publish(message(case, 0), ticket=0)
        sink.close()
        sink.close()


class SinkContract(ReceiptContract):
    """For a sink whose broker is always there."""

    def test_messages_of_a_key_arrive_in_the_order_they_were_published(self, case: Case) -> None:
        with closing(case.open()) as sink:
            for number in range(_MANY):
                for key in _KEYS:
                    assert sink.publish(message(case, number, key=key), ticket=0), "there was no room for 10,000"
            settle(sink, _MANY * len(_KEYS))
        arrived = case.arrived()
        for key in _KEYS:
            assert numbers(arrived, key) == list(range(_MANY)), f"not every message of {key!r} once and in order"
        assert arrived[0].headers == [("id", b"0"), ("position", b"0/1:0")], arrived[0].headers

    def test_a_header_arrives_as_it_is_or_its_message_is_refused(self, case: Case) -> None:
        """Never altered, never obeyed, never forgotten. What is refused is not sent, and what follows arrives."""
        expected: list[list[tuple[str, bytes | None]]] = []
        with closing(case.open()) as sink:
            for number, (name, headers) in enumerate(NASTY_HEADERS.items()):
                plain = message(case, number)
                nasty = plain._replace(headers=[*plain.headers, *headers])
                assert sink.publish(nasty, ticket=0), "there was no room"
                refusal = answer(sink)
                if refusal is None:
                    expected.append(nasty.headers)
                else:
                    told = refusal.message, refusal.error, refusal.scope, refusal.ends
                    assert told == (nasty, "serialization", "message", False), f"{name}: {refusal}"
            assert sink.publish(message(case, len(NASTY_HEADERS)), ticket=0), "a refusal left no room"
            settle(sink, 1)
        *arrived, _ = case.arrived()
        for got, sent in zip(arrived, expected, strict=True):
            assert sorted(got.headers, key=repr) == sorted(sent, key=repr), f"altered: {sent}"


class AwayContract(SinkContract):
    """For a sink whose broker can be away."""

    def test_no_room_means_that_nothing_was_taken(self, case: Case) -> None:
        size, accepted, refused = 10_000, 0, False
        with closing(case.open(room=50)) as sink:
            with held(case):
                while sink.publish(message(case, accepted, size=size), ticket=0):
                    accepted += 1
                    assert accepted < 10_000, "there is always room while nothing moves"
                refused = not sink.publish(message(case, accepted, size=size), ticket=0)
            settled = publish(sink, case, range(accepted, accepted + 100), size=size)
            assert refused, "there was room again though nothing moved"
            settle(sink, accepted + 100, settled)
        assert numbers(case.arrived()) == list(range(accepted + 100)), "not every message once and in order"

    def test_no_call_waits_longer_than_it_may_while_the_broker_is_away(self, case: Case) -> None:
        with closing(case.open(room=100)) as sink, held(case):
            waited = [seconds(lambda: sink.publish(message(case, 0, size=10_000), 0)) for _ in range(300)]
            assert median(waited) < 0.1, "publish waits"
            assert max(waited) < 3, "publish waited"
            list(sink.receipts(1))  # a pipe still takes some
            assert seconds(lambda: list(sink.receipts(0.2))) < 3, "receipts waited"
            assert seconds(lambda: sink.flush(0.2)) < 3, "flush waited"

    def test_close_lets_go_of_what_has_no_receipt(self, case: Case) -> None:
        """What was on its way already may arrive, in order; the next run publishes all of it again."""
        size = 1000
        with closing(case.open()) as sink:
            settled = settle(sink, 10, publish(sink, case, range(10), size=size)).total()
            with held(case):
                number = 10
                while number < 9000 and sink.publish(message(case, number, size=size), ticket=1):
                    number += 1
                settled += receipts(sink, 0.2).total()
                assert seconds(sink.close) < 5, "close waited"
                sink.close()
        with closing(case.open()) as successor:
            assert successor.publish(message(case, _MARKER), ticket=0)
            settle(successor, 1)
        *arrived, last = numbers(case.arrived())
        assert last == _MARKER, "something came after the next sink had begun"
        assert arrived == list(range(len(arrived))), "not in order"
        assert settled <= len(arrived) < number, f"{settled} receipts, {len(arrived)} of {number} messages arrived"
