"""What JetStream's answers mean, which headers and subjects it would misunderstand, and what a repetition is."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import nats as nats_py
import pytest
from nats.aio.msg import Msg

from tests.brokers.nats import NatsCase, request, stored
from tests.conftest import ProxyMaker
from tests.servers.nats import NatsServer
from walrelay.errors import Fatal
from walrelay.model import REPLAYED, Message, Refusal
from walrelay.publish import Sink
from walrelay.sinks.nats.plugin import plugin
from walrelay.testing import complains, failure, message, numbers, publish, receipts, refusal, settle

USER = "authorization { users: [{user: u, password: p, permissions: {%s}}] }"
CHAINED: dict[str, Any] = {"ordering": "chained"}
NatsMaker = Callable[..., NatsServer]


@pytest.fixture
def case(stoppable_nats: NatsServer) -> Iterator[NatsCase]:
    made = NatsCase(stoppable_nats)
    yield made
    made.close()


def told(refusal: Refusal) -> tuple[str, str, bool]:
    return refusal.error, refusal.scope, refusal.ends


def with_headers(case: NatsCase, number: int, *more: tuple[str, bytes | None]) -> Message:
    made = message(case, number)
    return made._replace(headers=[*made.headers, *more])


def published(sink: Sink, *messages: Message) -> None:
    for each in messages:
        assert sink.publish(each, 0)
    settle(sink, len(messages))


def test_a_subject_that_no_stream_has_is_refused_and_the_others_arrive(case: NatsCase) -> None:
    with closing(case.open()) as sink:
        lost = message(case, 1, key="b")._replace(topic="nowhere")
        for each in (message(case, 0), lost, message(case, 2, key="c")):
            assert sink.publish(each, 0)
        refused = refusal(sink)
        assert refused.message is lost
        assert told(refused) == ("unknown_topic", "topic", False)
        assert refused.reason == "no stream has the subject 'nowhere'"
        sink.flush(10)
    assert [got.value for got in case.arrived()] == [b"0", b"2"]


@pytest.mark.parametrize("ordering", ["per_key", "chained"])
def test_a_refused_message_is_not_overtaken_and_what_follows_it_arrives_in_the_next_run(
    stoppable_nats: NatsServer, ordering: str
) -> None:
    case = NatsCase(stoppable_nats, max_msg_size=2000)
    settings: dict[str, Any] = {"ordering": ordering, "stream": case.topic}
    with closing(case.open(**settings)) as sink:
        messages = [message(case, number, size=5000 if number == 1 else 0) for number in range(4)]
        for each in messages:
            assert sink.publish(each, 0)
        refused = refusal(sink)
        assert refused.message is messages[1]
        assert told(refused) == ("too_large", "message", True)
        assert not sink.publish(messages[3], 0)
    assert numbers(case.arrived()) == [0]
    with closing(case.open(**settings)) as careful:
        assert careful.publish(messages[1], 0)
        assert not careful.publish(messages[2], 0), "taken before the one ahead of it was decided"
        assert not refusal(careful).ends
        for each in messages[2:]:
            published(careful, each)
    assert numbers(case.arrived()) == [0, 2, 3]
    case.close()


def test_a_subject_without_a_stream_in_a_chain_is_refused_though_what_follows_it_breaks_the_chain(
    case: NatsCase,
) -> None:
    settings: dict[str, Any] = {**CHAINED, "stream": case.topic}
    lost = message(case, 1)._replace(topic="nowhere")
    with closing(case.open(**settings)) as sink:
        for each in (message(case, 0), lost, message(case, 2)):
            assert sink.publish(each, 0)
        assert refusal(sink).message is lost
    with closing(case.open(**settings)) as careful:
        assert careful.publish(lost, 0)
        assert not refusal(careful).ends
        published(careful, message(case, 2))
    assert numbers(case.arrived()) == [0, 2]


def test_a_chain_goes_on_where_the_last_run_ended_and_stores_no_repetition(case: NatsCase) -> None:
    settings: dict[str, Any] = {**CHAINED, "stream": case.topic}
    with closing(case.open(**settings)) as sink:
        settle(sink, 10, publish(sink, case, range(10)))
    with closing(case.open(**settings)) as sink:
        settle(sink, 15, publish(sink, case, range(5, 20)))
    assert numbers(case.arrived()) == [*range(20)]


def test_a_second_writer_breaks_a_chain_and_is_told_of(case: NatsCase) -> None:
    with closing(case.open(**CHAINED, stream=case.topic)) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        with closing(case.open()) as other:
            published(other, message(case, 7, key="other"))
        assert sink.publish(message(case, 1), 0)
        complains(sink, "or somebody else writes to it, which `ordering: chained` excludes")
    assert numbers(case.arrived()) == [0]


def test_a_stream_that_is_full_is_waited_for(stoppable_nats: NatsServer) -> None:
    case = NatsCase(stoppable_nats, max_msgs=2, discard="new")
    with closing(case.open()) as sink:
        settle(sink, 2, publish(sink, case, range(2)))
        assert sink.publish(message(case, 2), 0)
        complains(sink, "now: maximum messages exceeded")
        request(stoppable_nats.url, f"STREAM.PURGE.{case.topic}")
        settle(sink, 1)
        assert sink.trouble() == ""
    case.close()


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_an_account_without_room_is_waited_for(private_nats: NatsMaker, storage: str) -> None:
    server = private_nats(
        "accounts { A { jetstream: { max_file: 100KB, max_mem: 100KB }, users: [{ user: u, password: p }] } }"
    )
    url = server.url.replace("//", "//u:p@")
    request(url, "STREAM.CREATE.s", name="s", subjects=["s"], storage=storage)
    large = Message("s", b"a", b"1" * 40_000, [("id", b"1"), ("position", b"0/1:0")], 0)
    with closing(plugin.open(plugin.settings(url=url), plugin.memory())) as sink:
        published(sink, large, large._replace(value=b"2" * 40_000))
        assert sink.publish(large._replace(value=b"3" * 40_000), 0)
        complains(sink, "JetStream could not store a message for 's' now: ")
        request(url, "STREAM.PURGE.s")
        settle(sink, 1)


def test_a_subject_of_another_stream_than_the_one_that_is_set_is_refused(case: NatsCase) -> None:
    case.make(f"{case.topic}-2", f"{case.topic}.other")
    with closing(case.open(stream=case.topic)) as sink:
        published(sink, message(case, 0))
        assert sink.publish(message(case, 1)._replace(topic=f"{case.topic}.other"), 0)
        refused = refusal(sink)
        assert told(refused) == ("unknown_topic", "topic", False)
        assert f"is in another stream than '{case.topic}'" in refused.reason
    request(case.server.url, f"STREAM.DELETE.{case.topic}-2")


def test_a_sealed_stream_refuses_its_topic(case: NatsCase) -> None:
    config = request(case.server.url, f"STREAM.INFO.{case.topic}")["config"]
    request(case.server.url, f"STREAM.UPDATE.{case.topic}", **{**config, "sealed": True})
    with closing(case.open()) as sink:
        assert sink.publish(message(case, 0), 0)
        assert told(refusal(sink)) == ("refused", "topic", False)


def test_what_the_server_could_not_take_is_refused_and_the_connection_lives(case: NatsCase) -> None:
    large = message(case, 1, size=2**20 - 100)
    with closing(case.open()) as sink:
        published(sink, message(case, 0))
        assert sink.publish(large, 0)
        refused = refusal(sink)
        assert told(refused) == ("too_large", "message", False)
        assert refused.reason.endswith("and the server takes 1,048,576 (max_payload)")
        published(sink, message(case, 2))
        fits = 2**20 - 60 - len("NATS/1.0\r\n\r\nkey: a\r\nid: 3\r\nposition: 0/1:0\r\n")
        published(sink, message(case, 3, size=fits))
    assert numbers(case.arrived()) == [0, 2, 3]


@pytest.mark.parametrize("ordering", ["per_key", "chained"])
def test_what_was_taken_before_the_server_said_that_it_is_too_large_is_not_overtaken(
    case: NatsCase, ordering: str
) -> None:
    settings: dict[str, Any] = {"ordering": ordering, "stream": case.topic}
    large = message(case, 1, size=2**20)
    with closing(case.open(**settings)) as sink:
        for each in (message(case, 0), large, message(case, 2)):
            assert sink.publish(each, 0)
        refused = refusal(sink)
        assert refused.message is large
        assert told(refused) == ("too_large", "message", True)
        sink.flush(1)
    assert numbers(case.arrived()) in ([], [0])
    with closing(case.open(**settings)) as careful:
        assert careful.publish(large, 0)
        assert told(refusal(careful)) == ("too_large", "message", False)
        published(careful, message(case, 2))


def test_a_subject_that_the_user_may_not_publish_to_is_refused(private_nats: NatsMaker) -> None:
    server = private_nats(USER % 'publish: {deny: "Secret.>"}')
    with closing(plugin.open(plugin.settings(url=server.url.replace("//", "//u:p@")), plugin.memory())) as sink:
        denied = Message("Secret.Plans", b"a", b"1", [("id", b"1"), ("position", b"0/1:0")], 0)
        assert sink.publish(denied, 0)
        refused = refusal(sink)
        assert told(refused) == ("not_authorized", "topic", False)
        assert refused.reason == "the user of sink.url may not publish to 'Secret.Plans'"


@pytest.mark.parametrize("ordering", ["per_key", "pipelined", "chained"])
def test_of_subjects_that_differ_in_case_only_the_denied_one_is_refused(private_nats: NatsMaker, ordering: str) -> None:
    server = private_nats(USER % 'publish: {deny: "events.order"}')
    url = server.url.replace("//", "//u:p@")
    request(url, "STREAM.CREATE.events", name="events", subjects=["events.>"])
    settings = plugin.settings(url=url, subject="events.{topic}", stream="events", ordering=ordering)
    topics = ["order" if number == 10 else "Order" for number in range(20)]
    refused, durable, first = list[tuple[int, str]](), set[int](), 0
    memory = plugin.memory()
    while len(durable) + len(refused) < 20:
        with closing(plugin.open(settings, memory)) as sink:
            left = [n for n in range(20) if n not in durable and n not in dict(refused)]
            ended = False
            while not ended and len(durable) + len(refused) < 20:
                while left:
                    headers: list[tuple[str, bytes | None]] = [("id", b"%d" % left[0]), ("position", b"0/1:0")]
                    if not sink.publish(Message(topics[left[0]], b"%d" % left[0], b"{}", headers, 0), left[0]):
                        break
                    left.pop(0)
                for each in sink.receipts(0.1):
                    if isinstance(each, Refusal):
                        refused.append((each.ticket, each.error))
                        ended |= each.ends
                    else:
                        durable.add(each.ticket)
        first += 1
        assert first < 5
    assert refused == [(10, "not_authorized")]


def test_a_user_that_may_not_hear_the_answers_is_told(private_nats: NatsMaker) -> None:
    server = private_nats(USER % 'subscribe: "mine.>"')
    url = server.url.replace("//", "//u:p@")
    with closing(plugin.open(plugin.settings(url=url), plugin.memory())) as sink:
        assert failure(sink, Fatal).startswith("the user of sink.url may not subscribe where NATS answers")
    request(server.url.replace("//", "//u:p@"), "STREAM.CREATE.s", name="s", subjects=["s"], inbox="mine")
    with closing(plugin.open(plugin.settings(url=url, inbox_prefix="mine"), plugin.memory())) as sink:
        published(sink, Message("s", b"a", b"1", [("id", b"1"), ("position", b"0/1:0")], 0))


@contextmanager
def answering(url: str, subject: str, answer: bytes) -> Iterator[None]:
    """Somebody who answers what comes to the subject."""
    ready, over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        client = await nats_py.connect(url)

        async def reply(message: Msg) -> None:
            await message.respond(answer)

        await client.subscribe(subject, cb=reply)
        await client.flush()
        ready.set()
        await over.wait()
        await client.close()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    try:
        assert ready.wait(20)
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(20)
        loop.close()


@pytest.mark.parametrize("answer", [b"OK", b"", b'{"ok": true}', b"[]"])
def test_the_answer_of_another_than_a_stream_is_no_receipt(case: NatsCase, answer: bytes) -> None:
    with answering(case.server.url, "asked", answer), closing(case.open(request_timeout=0.5)) as sink:
        assert sink.publish(message(case, 0)._replace(topic="asked"), 0)
        complains(sink, "NATS has not answered to a message for 'asked': no stream has the subject")


def test_a_stream_that_acknowledges_nothing_is_named(stoppable_nats: NatsServer) -> None:
    case = NatsCase(stoppable_nats, no_ack=True)
    with closing(case.open(request_timeout=1)) as sink:
        assert sink.publish(message(case, 0), 0)
        complains(sink, f"stream {case.topic!r} acknowledges nothing (no_ack)")
    case.close()


def test_a_subject_that_gets_a_stream_late_has_its_message(case: NatsCase) -> None:
    subject = f"{case.topic}.late"
    with answering(case.server.url, subject, b"OK"), closing(case.open(request_timeout=1)) as sink:
        assert sink.publish(message(case, 0)._replace(topic=subject), 0)
        complains(sink, "no stream has the subject")
        case.make("late", subject)
        try:
            settle(sink, 1)
        finally:
            request(case.server.url, "STREAM.DELETE.late")


def test_a_stream_answers_beside_others(case: NatsCase) -> None:
    with answering(case.server.url, case.topic, b"OK"), closing(case.open()) as sink:
        published(sink, message(case, 0), message(case, 1))
    assert numbers(case.arrived()) == [0, 1]


@pytest.mark.parametrize("ordering", ["per_key", "chained"])
def test_a_cut_connection_leaves_a_prefix_and_the_next_one_the_rest(
    case: NatsCase, proxy: ProxyMaker, ordering: str
) -> None:
    between = proxy(case.server.port)
    settings: dict[str, Any] = {"url": f"nats://{between.address}", "ordering": ordering, "stream": case.topic}
    with closing(case.open(**settings)) as sink:
        settle(sink, 10, publish(sink, case, range(10)))
        for number in range(10, 200):
            assert sink.publish(message(case, number), 0)
        settled = receipts(sink, 0)
        between.cut()
        while not sink.trouble():
            settled += receipts(sink, 0.05)
        assert sink.trouble().startswith("the connection to NATS is gone")
        arrived = numbers(case.arrived())
        assert arrived == [*range(len(arrived))]
        settle(sink, 190, settled)
    assert numbers(case.arrived()) == [*range(200)]


def test_a_connection_without_its_other_end_is_given_up(case: NatsCase, proxy: ProxyMaker) -> None:
    between = proxy(case.server.port)
    with closing(case.open(url=f"nats://{between.address}", request_timeout=1)) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        between.half_open()
        assert sink.publish(message(case, 1), 0)
        complains(sink)


def test_messages_that_differ_in_anything_are_no_repetitions(case: NatsCase) -> None:
    """A second rule's message of a record, its dead letter, a message with another header."""
    case.make(f"{case.topic}-all", f"{case.topic}.>")
    plain = message(case, 0)._replace(topic=f"{case.topic}.orders")
    different = [
        plain,
        plain._replace(topic=f"{case.topic}.audit"),
        plain._replace(key=b"b"),
        plain._replace(value=b"1"),
        plain._replace(headers=[*plain.headers, ("dead_letter_error", b"refused")]),
        plain._replace(topic=f"{case.topic}.a", key=None, headers=[("id", b"1b"), ("position", b"0/1:0")]),
        plain._replace(topic=f"{case.topic}.a", key=None, headers=[("id", b"1"), ("b", b""), ("position", b"0/1:0")]),
    ]
    with closing(case.open()) as sink:
        published(sink, *different)
    with closing(case.open()) as sink:
        published(sink, *different)
    assert len(stored(case.server.url, f"{case.topic}-all")) == len(different)
    request(case.server.url, f"STREAM.DELETE.{case.topic}-all")


def test_two_messages_of_a_record_that_are_the_same_are_both_stored_once(case: NatsCase) -> None:
    first, second = message(case, 0), with_headers(case, 1)._replace(headers=[("id", b"1"), ("position", b"0/1:1")])
    for _ in range(2):
        with closing(case.open()) as sink:
            published(sink, first, first, second, second)
    assert numbers(case.arrived()) == [0, 0, 1, 1]


def test_such_messages_are_told_apart_though_others_are_sent_between_them(case: NatsCase) -> None:
    with closing(case.open()) as sink:
        published(sink, message(case, 0), message(case, 0), with_headers(case, 1, ("b", b"1"))._replace(key=b"b"))
    assert numbers(case.arrived()) == [0, 0]


def test_what_is_replayed_is_stored_each_time(case: NatsCase) -> None:
    for _ in range(2):
        with closing(case.open()) as sink:
            published(sink, with_headers(case, 0, REPLAYED))
    assert numbers(case.arrived()) == [0, 0]


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([("Nats-Rollup", b"all")], "NATS would obey the header 'Nats-Rollup'"),
        ([("nats-msg-id", b"1")], "NATS would obey the header 'nats-msg-id'"),
        ([("Status", b"404")], "a header 'Status' makes clients take the message for an answer of the server"),
        ([("a", b"1"), ("a", b"2")], "the header 'a' is there twice, and the client sends one"),
        ([("a", None)], "the header 'a' has no value, and NATS has no such headers"),
        ([("a b", b"1")], "the header 'a b' has a name that is no word of ASCII"),
        ([("", b"1")], "the header '' has a name that is no word of ASCII"),
        ([("a", b" b")], "the header 'a' is not UTF-8, or has blanks around it or a line's end, which the client"),
        ([("a", b"x" * 66_000)], "the headers have 66,109 bytes, and a stream takes 65,535"),
    ],
)
def test_headers_that_nats_would_misunderstand_are_refused(
    case: NatsCase, headers: list[tuple[str, bytes | None]], reason: str
) -> None:
    with closing(case.open()) as sink:
        assert sink.publish(with_headers(case, 1, *headers), 0)
        refused = refusal(sink)
        assert refused.reason.startswith(reason)
        assert told(refused) == ("serialization", "message", False)


NO_SUBJECTS = ["a b", "a.*", "a.>", "a..b", ".a", "a.", "", "a\r\nPUB b 0", "\udcff", "x" * 1001]
OF_NATS = ["$JS.API.STREAM.PURGE.x", "_INBOX.a"]


@pytest.mark.parametrize("subject", NO_SUBJECTS + OF_NATS)
def test_what_is_no_subject_or_not_for_messages_is_refused(case: NatsCase, subject: str) -> None:
    with closing(case.open()) as sink:
        assert sink.publish(message(case, 1)._replace(topic=subject), 0)
        assert told(refusal(sink)) == ("invalid_topic", "message", False)


def test_the_longest_subject_is_stored(case: NatsCase) -> None:
    case.make(f"{case.topic}-long", f"{case.topic}.>")
    subject = f"{case.topic}.".ljust(1000, "x")
    with closing(case.open()) as sink:
        published(sink, message(case, 1)._replace(topic=subject))
    assert [found for found, _, _ in stored(case.server.url, f"{case.topic}-long")] == [subject]
    request(case.server.url, f"STREAM.DELETE.{case.topic}-long")


def test_a_subject_is_a_template(case: NatsCase) -> None:
    case.make(f"{case.topic}-by-key", f"{case.topic}.>")
    with closing(case.open(subject="{topic}.{header.id}.{key}")) as sink:
        published(sink, message(case, 7))
        assert sink.publish(message(case, 8)._replace(key=None), 0)
        assert told(refusal(sink)) == ("unroutable", "message", False)
    assert [found for found, _, _ in stored(case.server.url, f"{case.topic}-by-key")] == [f"{case.topic}.7.a"]
    request(case.server.url, f"STREAM.DELETE.{case.topic}-by-key")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"url": "http://a"}, "an address begins with nats:// or tls://"),
        ({"url": "nats://"}, "an address has a host"),
        ({"url": "nats://a, tls://b"}, "begin all with nats://, or all with tls://"),
        ({"url": "nats://a", "ordering": "chained"}, "chained needs the name of the stream"),
        ({"url": "nats://a", "credentials_file": "a", "nkey_file": "b"}, "exclude each other"),
        ({"url": "nats://a", "stream": "a.b"}, "stream"),
        ({"url": "nats://a", "subject": "{top}"}, "no template of an address"),
        ({"url": "nats://a", "inbox_prefix": "a.*"}, "wildcards"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        plugin.settings.model_validate(settings)
