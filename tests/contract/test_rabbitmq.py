"""What RabbitMQ's answers mean, and which headers it would misunderstand."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from time import monotonic
from typing import Any

import pika
import pytest

from tests.brokers.rabbitmq import RabbitmqCase
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.rabbitmq import RabbitmqServer
from walrelay.errors import Fatal, Retryable
from walrelay.model import Message, Refusal
from walrelay.publish import Sink
from walrelay.sinks.rabbitmq.plugin import plugin
from walrelay.sinks.rabbitmq.settings import RabbitmqSettings
from walrelay.testing import Arrived, complains, message, numbers, publish, receipts, refusal, settle


@pytest.fixture
def case(stoppable_rabbitmq: RabbitmqServer) -> Iterator[RabbitmqCase]:
    made = RabbitmqCase(stoppable_rabbitmq)
    yield made
    made.close()


def test_a_message_that_no_queue_takes_is_refused_and_the_others_of_other_keys_arrive(case: RabbitmqCase) -> None:
    with closing(case.open()) as sink:
        lost = message(case, 1, key="b")._replace(topic="nowhere")
        for each in (message(case, 0), lost, message(case, 2, key="c")):
            assert sink.publish(each, 0)
        told = refusal(sink)
        assert (told.message, told.error, told.scope, told.ends) == (lost, "unroutable", "topic", False)
        assert told.reason == "no queue takes it (NO_ROUTE): exchange '', routing key 'nowhere'"
        sink.flush(10)
    assert [got.value for got in case.arrived()] == [b"0", b"2"]


def test_of_messages_that_look_the_same_the_returned_one_is_refused(case: RabbitmqCase) -> None:
    """Equal payloads and routing keys, no id; an exchange that goes by a header, as one for tenants does."""
    exchange = f"{case.topic}.by-tenant"
    with case.client() as client:
        client.exchange_declare(exchange, "headers", auto_delete=True)
        client.queue_bind(case.topic, exchange, arguments={"x-match": "all", "tenant": "here"})
    tenants = ["away" if number % 4 == 3 else "here" for number in range(40)]
    lost, arrived = set[int](), 0
    with closing(case.open(exchange=exchange, routing_key="x", key_header=None)) as sink:
        for number, tenant in enumerate(tenants):
            each = message(case, number, key=str(number))._replace(value=b"{}", headers=[("tenant", tenant.encode())])
            while not sink.publish(each, number):
                lost, arrived = told(sink, lost, arrived)
        while len(lost) + arrived < 40:
            lost, arrived = told(sink, lost, arrived)
    assert lost == {number for number, tenant in enumerate(tenants) if tenant == "away"}
    assert len(case.arrived()) == 30


def told(sink: Sink, lost: set[int], arrived: int) -> tuple[set[int], int]:
    """The tickets of refused messages, and how many others are durable, with those of before."""
    for each in sink.receipts(0.1):
        if isinstance(each, Refusal):
            lost = lost | {each.ticket}
        else:
            arrived += each.messages
    return lost, arrived


def test_the_id_of_the_envelope_spring_is_the_message_id(case: RabbitmqCase) -> None:
    headers: list[tuple[str, bytes | None]] = [("id", b"i-1"), ("event_id", b"e-1")]
    with closing(case.open()) as sink:
        for number, those in enumerate((headers[1:], headers, headers[::-1])):
            assert sink.publish(message(case, number)._replace(headers=those), number)
        settle(sink, 3)
    assert [case.properties().message_id for _ in range(3)] == ["e-1", "i-1", "i-1"]


def test_with_mandatory_off_such_a_message_is_lost_as_asked(case: RabbitmqCase) -> None:
    with closing(case.open(mandatory=False)) as sink:
        assert sink.publish(message(case, 1)._replace(topic="nowhere"), 0)
        settle(sink, 1)


def test_an_exchange_that_does_not_exist_is_a_refusal_that_names_it(case: RabbitmqCase) -> None:
    with closing(case.open(exchange="none.such")) as sink:
        assert sink.publish(message(case, 1), 0)
        told = refusal(sink)
        assert "no exchange 'none.such' in vhost '/'" in told.reason
        assert (told.error, told.scope, told.ends) == ("unknown_topic", "topic", True)


def test_a_refused_message_is_not_overtaken_by_those_of_its_key(case: RabbitmqCase) -> None:
    with closing(case.open(routing_key="{header.to}")) as sink:
        first = with_headers(case, 0, ("to", case.topic.encode()))
        lost = with_headers(case, 1, ("to", b"nowhere"))
        later = with_headers(case, 2, ("to", case.topic.encode()))
        for each in (first, lost, later):
            assert sink.publish(each, 0)
        told = refusal(sink)
        assert told.message is lost
        assert told.ends
        assert not sink.publish(later, 0)
    assert numbers(case.arrived()) == [0]
    with closing(case.open(routing_key="{header.to}")) as careful:
        assert careful.publish(lost, 0)
        assert not careful.publish(later, 0), "taken before the one ahead of it was decided"
        assert not refusal(careful).ends
        assert careful.publish(later, 0)
        settle(careful, 1)
    assert numbers(case.arrived()) == [2]


def test_a_full_queue_holds_up_its_own_keys_only(stoppable_rabbitmq: RabbitmqServer, case: RabbitmqCase) -> None:
    full = RabbitmqCase(stoppable_rabbitmq, **{"x-max-length": 2, "x-overflow": "reject-publish"})
    with closing(case.open()) as sink:
        settle(sink, 2, publish(sink, full, range(2)))
        for number in range(2, 6):
            assert sink.publish(message(full, number), 0)
        complains(sink, f"RabbitMQ could not store a message for {full.topic!r} now")
        settle(sink, 100, publish(sink, case, range(100)))
        arrived = numbers(full.arrived())
        while len(arrived) < 6:
            receipts(sink, 0.05)
            arrived += numbers(full.arrived())
        settle(sink, 0)
        assert sink.trouble() == ""
    assert arrived == [*range(6)]
    assert numbers(case.arrived()) == [*range(100)]
    full.close()


def test_more_messages_than_a_queue_has_room_for_get_through_once(stoppable_rabbitmq: RabbitmqServer) -> None:
    case = RabbitmqCase(stoppable_rabbitmq, **{"x-max-length": 5, "x-overflow": "reject-publish"})
    arrived, settled = list[Arrived](), Counter[int]()
    with closing(case.open()) as sink:
        for number in range(40):
            assert sink.publish(message(case, number, key="abcd"[number % 4]), 0)
        deadline = monotonic() + 60
        while settled.total() < 40:
            assert monotonic() < deadline, f"{settled.total()} of 40 are durable: {sink.trouble()}"
            settled += receipts(sink, 0.05)
            arrived += case.arrived()
        assert sink.trouble() == ""
    arrived += case.arrived()
    assert len(arrived) == 40, "something came again"
    assert [numbers(arrived, key) for key in "abcd"] == [[*range(first, 40, 4)] for first in range(4)]
    case.close()


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([("CC", b"elsewhere")], "of a header 'CC' RabbitMQ would make further routing keys"),
        ([("Bcc", b"elsewhere")], "of a header 'Bcc' RabbitMQ would make further routing keys"),
        ([("a", b"1"), ("a", b"2")], "the header 'a' is there twice, and RabbitMQ keeps one"),
        ([("n" * 256, b"1")], "the name of the header 'nnnnnnnnnnnnnnnnnnnn'... is longer than 255 bytes"),
        (
            [("a", b"x" * 140_000)],
            "the headers and properties make a frame of 140,103 bytes, and RabbitMQ takes 131,072",
        ),
        (
            [("ü" * 100 + str(number), b"") for number in range(700)],
            "the headers and properties make a frame of 146,286 bytes, and RabbitMQ takes 131,072",
        ),
        ([("\udcff", b"1")], "the name of the header '\\udcff' is not UTF-8"),
    ],
)
def test_headers_that_rabbitmq_would_misunderstand_are_refused(
    case: RabbitmqCase, headers: list[tuple[str, bytes | None]], reason: str
) -> None:
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        assert sink.publish(with_headers(case, 1, *headers), 0)
        told = refusal(sink)
        assert (told.reason, told.error, told.ends) == (reason, "serialization", False)
        assert sink.publish(message(case, 2), 0)
        settle(sink, 1)
    assert numbers(case.arrived()) == [0, 2]


def room_for(sent: Message, frame: int) -> int:
    """Bytes that its last header may have more, by pika's own writing of the frame."""
    properties = pika.BasicProperties(
        headers={"key": "a", **{name: (value or b"").decode() for name, value in sent.headers}},
        delivery_mode=2,
        timestamp=1,
        message_id="1",
        type="t" * 200,
        cluster_id="1" * 20,
    )
    return frame - len(pika.frame.Header(1, 1, properties).marshal())


@pytest.mark.parametrize("frame", [131_072, 8_192])
def test_properties_that_fill_a_frame_arrive_and_those_with_one_byte_more_are_refused(
    case: RabbitmqCase, frame: int
) -> None:
    begin = with_headers(case, 1, ("type", b"t" * 200), ("ü", b""))
    room = room_for(begin, frame)
    full, over = (with_headers(case, 1, ("type", b"t" * 200), ("ü", b"x" * (room + more))) for more in (0, 1))
    with closing(case.open(url=f"{case.server.url}?frame_max={frame}")) as sink:
        publish(sink, case, range(1))
        settle(sink, 1)
        assert sink.publish(over, 0)
        told = refusal(sink)
        assert (told.message, told.error, told.ends) == (over, "serialization", False)
        assert sink.publish(full, 0)
        settle(sink, 1)
    assert numbers(case.arrived()) == [0, 1]


def test_properties_that_were_taken_before_the_frame_was_known_are_refused_and_not_overtaken(
    case: RabbitmqCase,
) -> None:
    large = with_headers(case, 1, ("a", b"x" * 9_000))
    with closing(case.open(url=f"{case.server.url}?frame_max=8192")) as sink:
        assert sink.publish(message(case, 0, key="b"), 0)
        assert sink.publish(large, 0)
        assert sink.publish(message(case, 2), 0)
        told = refusal(sink)
        assert (told.message, told.ends) == (large, True)
        sink.flush(10)
    assert [got.value for got in case.arrived()] == [b"0"]


def test_a_name_that_is_not_utf_8_or_is_empty_is_refused(case: RabbitmqCase) -> None:
    with closing(case.open(exchange="{header.to}")) as sink:
        for to in ("", "x" * 256):
            assert sink.publish(with_headers(case, 1, ("to", to.encode())), 0)
            assert refusal(sink).reason.startswith("the exchange's name is ")
        assert sink.publish(with_headers(case, 1, ("to", b"amq.direct"))._replace(topic="\udcff"), 0)
        assert refusal(sink).reason == "the routing key is not UTF-8"


@pytest.mark.parametrize("value", [b"", b"\0", b"\xff\xfe", "ü☃".encode(), b"a\r\nb", b"x" * 70_000, None])
def test_header_values_arrive_as_they_are(case: RabbitmqCase, value: bytes | None) -> None:
    with closing(case.open()) as sink:
        assert sink.publish(with_headers(case, 0, ("odd", value), ("ü ☃", b"1")), 0)
        settle(sink, 1)
    headers = dict(case.arrived()[0].headers)
    assert headers == {"id": b"0", "position": b"0/1:0", "odd": value, "ü ☃": b"1"}


def test_properties_say_what_consumers_look_for(case: RabbitmqCase) -> None:
    with closing(case.open(content_type="application/json")) as sink:
        assert sink.publish(with_headers(case, 7, ("type", b"OrderPlaced"), ("correlation_id", b"c-1")), 0)
        settle(sink, 1)
    got = case.properties()
    assert (got.message_id, got.type, got.correlation_id) == ("7", "OrderPlaced", "c-1")
    assert (got.delivery_mode, got.timestamp, got.content_type) == (2, 1_700_000_000, "application/json")


def test_of_several_nodes_the_first_that_answers_is_taken(case: RabbitmqCase) -> None:
    with closing(case.open(url=f"amqp://guest:guest@{LOOPBACK}:{free_port()}/, {case.server.url}")) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
    assert numbers(case.arrived()) == [0]


def test_the_doctor_says_what_is_there_and_what_is_missing(case: RabbitmqCase) -> None:
    settings = RabbitmqSettings.model_validate({"url": case.server.url})
    findings = [(each.verdict, each.detail) for each in plugin.examine(settings, [case.topic, "nowhere"])]
    assert findings == [
        ("ok", f"connected to RabbitMQ {case.server.version} as the user of sink.url"),
        ("ok", f"queue {case.topic!r} is there"),
        ("problem", "queue 'nowhere' does not exist"),
    ]
    away = RabbitmqSettings.model_validate({"url": f"amqp://guest:guest@{LOOPBACK}:{free_port()}/", "mandatory": False})
    (problem, warning) = plugin.examine(away, [])
    assert problem.verdict == "problem"
    assert problem.detail.startswith("RabbitMQ cannot be reached")
    assert warning.detail == "sink.mandatory is off: a message that no queue takes is lost"


def test_init_declares_what_is_missing_and_leaves_what_is_there(case: RabbitmqCase) -> None:
    made = f"{case.topic}-made"
    settings = RabbitmqSettings.model_validate({"url": case.server.url})
    assert plugin.make_topics is not None
    assert [*plugin.make_topics(settings, [case.topic, made], 1, None)] == [(case.topic, False), (made, True)]
    case.server.control("delete_queue", made)


def test_the_doctor_and_init_say_the_broker_s_words_and_how_to_make_it(case: RabbitmqCase) -> None:
    settings = RabbitmqSettings.model_validate({"url": case.server.url, "exchange": f"{case.topic}-x"})
    assert (plugin.made_as(settings), plugin.made_as(RabbitmqSettings.model_validate({"url": case.server.url}))) == (
        "exchange",
        "queue",
    )
    _, missing = plugin.examine(settings, ["outbox.event.*"])
    assert missing.detail == f"exchange '{case.topic}-x' does not exist"
    assert missing.fix == "walrelay init --topics 'outbox.event.*'\n# or declare the exchange yourself"
    assert plugin.make_topics is not None
    assert [*plugin.make_topics(settings, ["outbox.event.*"], 1, None)] == [(f"{case.topic}-x", True)]
    assert [each.verdict for each in plugin.examine(settings, ["outbox.event.*"])] == ["ok", "ok"]
    with closing(pika.BlockingConnection(pika.URLParameters(case.server.url))) as connection:
        connection.channel().exchange_delete(f"{case.topic}-x")


def test_the_doctor_and_init_over_tls(case: RabbitmqCase) -> None:
    server = case.server
    certificate, key = server.authority.sign("relay")
    trusting = {"url": server.tls_url, "ca_file": str(server.authority.certificate)}
    own = {"certificate_file": str(certificate), "key_file": str(key)}
    made = f"{case.topic}-tls"

    def findings(**settings: str) -> list[tuple[str, str]]:
        return [
            (each.verdict, each.detail) for each in plugin.examine(RabbitmqSettings.model_validate(settings), [made])
        ]

    assert plugin.make_topics is not None
    well = RabbitmqSettings.model_validate({**trusting, **own})
    assert [*plugin.make_topics(well, [made], 1, None)] == [(made, True)]
    assert findings(**trusting, **own)[1:] == [("ok", f"queue {made!r} is there")]
    server.control("delete_queue", made)
    for wrong in (trusting, {"url": server.tls_url, **own}, {"url": server.tls_url, "ca_file": "/nowhere"}):
        ((verdict, detail),) = findings(**wrong)
        assert verdict == "problem"
        assert "cannot be re" in detail


def test_a_user_who_may_do_nothing_is_told_of_each_place(case: RabbitmqCase) -> None:
    control = case.server.control
    control("add_user", "nobody", "secret")
    try:
        control("set_permissions", "nobody", "^$", "^$", "^$")
        settings = RabbitmqSettings.model_validate({"url": case.server.url.replace("guest:guest", "nobody:secret")})
        connected, place = plugin.examine(settings, [f"{case.topic}-none"])
        assert connected.verdict == "ok"
        assert place.verdict in ("warning", "problem")
        assert plugin.make_topics is not None
        with pytest.raises(Fatal, match=f"RabbitMQ did not declare queue '{case.topic}-none': .*ACCESS_REFUSED"):
            list(plugin.make_topics(settings, [f"{case.topic}-none"], 1, None))
    finally:
        control("delete_user", "nobody")


def with_headers(case: RabbitmqCase, number: int, *more: tuple[str, bytes | None]) -> Message:
    made: Any = message(case, number)
    return made._replace(headers=[*made.headers, *more])  # type: ignore[no-any-return]


@pytest.mark.parametrize("missing", ["bad", "it's", "b" * 230, "x' in vhost '/"])
def test_only_messages_for_a_missing_exchange_are_refused_whatever_its_name(case: RabbitmqCase, missing: str) -> None:
    good = f"{case.topic}.good"
    with case.client() as client:
        client.exchange_declare(good, "fanout", auto_delete=True)
        client.queue_bind(case.topic, good)
    exchanges = [missing if number == 20 else good for number in range(41)]
    assert refused_of(case, exchanges, exchange="{header.to}") == {20: "unknown_topic"}
    assert {int(got.value or b"") for got in case.arrived()} == {*range(41)} - {20}


def test_a_message_above_max_message_size_is_too_large_and_no_other(stoppable_rabbitmq: RabbitmqServer) -> None:
    case = RabbitmqCase(stoppable_rabbitmq)
    stoppable_rabbitmq.control("eval", "application:set_env(rabbit, max_message_size, 200000).")
    try:
        sizes = [300_000 if number == 7 else 1_000 * number for number in range(20)]
        assert refused_of(case, sizes) == {7: "too_large"}
        assert {int(got.key or b"") for got in case.arrived()} == {*range(20)} - {7}
    finally:
        stoppable_rabbitmq.control("eval", "application:unset_env(rabbit, max_message_size).")
        case.close()


def refused_of(case: RabbitmqCase, what: Sequence[str | int], **settings: Any) -> dict[int, str]:
    """A message for each, of a key of its own, to that exchange or of that size: which are refused, and with what
    error. As the relay does it, a sink that ends is followed by another, which gets what has no answer.
    """
    made = [
        message(case, number, key=str(number))._replace(
            headers=[("to", str(each).encode())], value=b"%d" % number if isinstance(each, str) else b"x" * each
        )
        for number, each in enumerate(what)
    ]
    refused, durable = dict[int, str](), set[int]()
    while len(refused) + len(durable) < len(made):
        with closing(case.open(**settings)) as sink:
            ended, left = False, [n for n in range(len(made)) if n not in refused and n not in durable]
            while not ended and len(refused) + len(durable) < len(made):
                while left and sink.publish(made[left[0]], left[0]):
                    left.pop(0)
                try:
                    for each in sink.receipts(0.1):
                        if isinstance(each, Refusal):
                            refused[each.ticket] = each.error
                            ended |= each.ends
                        else:
                            durable.add(each.ticket)
                except Retryable:
                    ended = True
    return refused
