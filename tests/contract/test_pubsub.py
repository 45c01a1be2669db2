"""Pub/Sub's sink on a fake in a process of its own, Google's pstest: connections that break, and what consumers get."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from tests.brokers.pubsub import PROJECT, PubsubCase, findings
from tests.conftest import ProxyMaker
from tests.contract.hearing import pumped_until, told
from tests.servers.pubsub import PubsubServer
from tests.servers.waiting import wait_until
from walrelay.sinks.pubsub.plugin import plugin
from walrelay.testing import complains, message, numbers, publish, receipts, refusal, settle

pytestmark = pytest.mark.slow


@pytest.fixture
def case(stoppable_pubsub: PubsubServer) -> Iterator[PubsubCase]:
    made = PubsubCase(stoppable_pubsub)
    yield made
    made.close()


def test_no_answer_ends_the_run_and_the_next_one_has_a_new_connection(case: PubsubCase, proxy: ProxyMaker) -> None:
    between = proxy(case.server.port)
    endpoint = f"http://{between.address}"
    with closing(case.open(endpoint=endpoint, request_timeout=1)) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        between.half_open()
        assert sink.publish(message(case, 1), 0)
        complains(sink, "DEADLINE_EXCEEDED")
        between.resume()
        settle(sink, 1)
    assert numbers(case.arrived()) == [0, 1]


def test_a_stalled_connection_goes_on(case: PubsubCase, proxy: ProxyMaker) -> None:
    between = proxy(case.server.port)
    with closing(case.open(endpoint=f"http://{between.address}")) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        between.stall()
        assert sink.publish(message(case, 1), 0)
        assert receipts(sink, 0.2).total() == 0
        between.resume()
        settle(sink, 1)
    assert numbers(case.arrived()) == [0, 1]


def test_a_cut_connection_is_made_again_within_the_run_and_nothing_is_out_of_order(
    case: PubsubCase, proxy: ProxyMaker
) -> None:
    between = proxy(case.server.port)
    with closing(case.open(endpoint=f"http://{between.address}")) as sink:
        settle(sink, 10, publish(sink, case, range(10)))
        for number in range(10, 200):
            assert sink.publish(message(case, number), 0)
        receipts(sink, 0)
        between.cut()
        pumped_until(sink, lambda: numbers(case.arrived())[-1] == 199, "the last")
    arrived = numbers(case.arrived())
    assert [*dict.fromkeys(arrived)] == [*range(200)], "the first of each is in order"


def test_a_server_that_is_killed_and_comes_back_gets_the_rest_within_the_run(case: PubsubCase) -> None:
    with closing(case.open()) as sink:
        settle(sink, 10, publish(sink, case, range(10)))
        case.server.kill()
        for number in range(10, 100):
            assert sink.publish(message(case, number), 0)
        pumped_until(sink, lambda: "UNAVAILABLE" in sink.trouble(), "a complaint")
        case.server.start()
        settle(sink, 90)
    assert numbers(case.arrived()) == [*range(100)]


def test_a_subscription_with_ordering_gets_the_messages_of_a_key_in_order(case: PubsubCase) -> None:
    name = f"projects/{PROJECT}/subscriptions/{case.topic}"
    with case.server.subscriber() as subscriber:
        subscriber.create_subscription(request={"name": name, "topic": case.full_name, "enable_message_ordering": True})
        with closing(case.open(key_header="customer")) as sink:
            for number in range(30):
                assert sink.publish(message(case, number, key=f"key-{number % 3}"), 0)
            settle(sink, 30)
        pulled: list[Any] = []

        def all_of_it() -> bool:
            answer = subscriber.pull(request={"subscription": name, "max_messages": 1000}, timeout=10)
            pulled.extend(each.message for each in answer.received_messages)
            if ids := [each.ack_id for each in answer.received_messages]:
                subscriber.acknowledge(request={"subscription": name, "ack_ids": ids})
            return len(pulled) == 30

        wait_until(all_of_it, 30, "30 messages")
        subscriber.delete_subscription(request={"subscription": name})
    for key in ("key-0", "key-1", "key-2"):
        found = [int(each.data) for each in pulled if each.ordering_key == key]
        assert found == [number for number in range(30) if f"key-{number % 3}" == key]
    assert dict(pulled[0].attributes)["customer"] == pulled[0].ordering_key


def test_a_topic_that_does_not_exist_is_refused_and_others_go_on(case: PubsubCase) -> None:
    with closing(case.open()) as sink:
        lost = message(case, 1, key="b")._replace(topic="nowhere")
        for each in (message(case, 0), lost, message(case, 2, key="c")):
            assert sink.publish(each, 0)
        refused = refusal(sink)
        assert refused.message is lost
        assert told(refused) == ("unknown_topic", "topic", False)
        sink.flush(10)
    assert {got.value for got in case.arrived()} == {b"0", b"2"}


def test_the_topic_is_a_template_and_messages_of_a_key_that_go_to_different_ones_share_no_request(
    case: PubsubCase,
) -> None:
    for name in ("even", "odd"):
        case.make(f"{case.topic}-{name}")
    with closing(case.open(topic="{topic}-{header.parity}")) as sink:
        for number in range(50):
            made = message(case, number)
            parity = ("parity", b"odd" if number % 2 else b"even")
            assert sink.publish(made._replace(headers=[*made.headers, parity]), 0)
        settle(sink, 50)
        assert sink.publish(message(case, 51), 0)
        assert told(refusal(sink)) == ("unroutable", "message", False)
    for first, name in enumerate(("even", "odd")):
        found = case.server.published(f"{case.full_name}-{name}")
        assert [int(each.data) for each in found] == [*range(first, 50, 2)]


@pytest.mark.parametrize("topic", ["ab", "1abc", "a b c", "goog-orders", "a" * 256, "a/b", "../x", "", "été", "a\nbc"])
def test_what_is_no_topic_is_refused(case: PubsubCase, topic: str) -> None:
    with closing(case.open()) as sink:
        assert sink.publish(message(case, 0)._replace(topic=topic), 0)
        assert told(refusal(sink)) == ("invalid_topic", "message", False)


def test_only_the_settings_lead_to_another_project(case: PubsubCase) -> None:
    with closing(case.open(project="other", topic=f"projects/{PROJECT}/topics/{{topic}}")) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        assert sink.publish(message(case, 1)._replace(topic=f"projects/{PROJECT}/topics/{case.topic}"), 0)
        assert told(refusal(sink)) == ("invalid_topic", "message", False)
    assert numbers(case.arrived()) == [0]


def test_the_doctor_looks_at_topics_and_subscriptions(case: PubsubCase) -> None:
    examined = partial(findings, f"http://{case.server.address}")
    connected = ("ok", f"connected to Pub/Sub at {case.server.address} without TLS and credentials, as an emulator is")
    assert examined() == [connected]
    assert examined("part-*") == [connected]
    name, other = case.full_name, f"{case.topic}-2"
    assert examined(other) == [connected, ("problem", f"{name}-2 does not exist")]
    make = plugin.make_topics
    assert make is not None
    settings = plugin.settings(project=PROJECT, endpoint=f"http://{case.server.address}")
    assert list(make(settings, [case.topic, other], 1, None)) == [(name, False), (f"{name}-2", True)]
    alone = "has no subscription and retains nothing: what is published before there is one is lost"
    assert examined(case.topic) == [connected, ("ok", f"{name} is there"), ("warning", f"{name} {alone}")]
    with case.server.subscriber() as subscriber:
        for ordered in (True, False):
            subscription = f"projects/{PROJECT}/subscriptions/{case.topic}-{ordered}"
            subscriber.create_subscription(
                request={"name": subscription, "topic": name, "enable_message_ordering": ordered}
            )
    assert examined(case.topic) == [
        connected,
        ("ok", f"{name} is there"),
        ("warning", f"{subscription} has no message ordering: it gets the messages of a key in any order"),
    ]
