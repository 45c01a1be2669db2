"""What is done about a refusal: the policy of its topic, and the error that stops the relay."""

from walrelay.model import Message, Refusal
from walrelay.publish import refused
from walrelay.wiring import Policy


def test_a_refusal_names_the_record_the_topic_and_the_cure() -> None:
    headers: list[tuple[str, bytes | None]] = [("id", b"e-1"), ("position", b"16/B374D848:2")]
    error = refused([Refusal(7, Message("orders", b"k", b"v", headers, 0), "too large", "Make it smaller.")])
    assert str(error) == "record e-1 at 16/B374D848:2 was refused for topic 'orders': too large"
    assert error.hint == "Make it smaller."


def test_a_message_without_the_headers_is_told_as_far_as_it_is_known() -> None:
    error = refused([Refusal(7, Message("orders", None, None, [("id", None)], 0), "too large", "")])
    assert str(error) == "record  at ? was refused for topic 'orders': too large"
    assert error.place is None


def test_of_several_refusals_the_first_record_is_named_in_the_order_of_the_commits() -> None:
    def refusal(position: bytes) -> Refusal:
        return Refusal(7, Message("orders", None, None, [("id", b"e"), ("position", position)], 0), "too large", "")

    error = refused([refusal(b"0/20:1"), refusal(b"0/3:2"), refusal(b"?"), refusal(b"0/3:12")])
    assert "at 0/3:2 " in str(error)
    assert error.place == (3, 2)


def test_the_first_pattern_that_matches_the_topic_decides() -> None:
    policy = Policy("dead_letter", (("audit.*", "skip"), ("audit.payments", "stop"), ("orders", "stop")))
    topics = ("audit.payments", "orders", "orders.late", "audit")
    assert [policy.of(topic) for topic in topics] == ["skip", "stop", "dead_letter", "dead_letter"]


def test_what_the_topic_of_the_dead_letters_refuses_stops_the_relay() -> None:
    assert Policy("dead_letter", topic="graveyard").of("graveyard") == "stop"


def test_a_policy_that_only_stops_needs_no_table() -> None:
    assert Policy().only_stops
    assert Policy("stop", (("a", "stop"),)).only_stops
    assert not Policy("stop", (("a", "skip"),)).only_stops
