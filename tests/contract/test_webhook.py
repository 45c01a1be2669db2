"""What the answers of an endpoint mean, what a hostile one gets, and what a request looks like."""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from email.utils import formatdate
from itertools import count
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook

from tests.servers.certificates import Authority
from tests.servers.waiting import wait_until
from tests.servers.webhook import Behaviour, Conversation, Endpoint, Request, answering, response
from walrelay.lsn import LSN
from walrelay.model import Message, OutboxRecord, Receipt, Refusal
from walrelay.publish import Sink
from walrelay.route.envelopes import CloudEvents
from walrelay.route.rules.fields import Fields
from walrelay.sinks.webhook.plugin import plugin
from walrelay.sinks.webhook.settings import WebhookSettings

OK = response()
SECRETS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLjSw", "whsec_" + "QUJD" * 8]
Header = tuple[str, bytes | None]


def opened(endpoint: Endpoint, memory: Any = None, **settings: Any) -> Sink:
    settings = {"url": f"{endpoint.url}?token=s3cret", "allow_private_addresses": True, **settings}
    return plugin.open(WebhookSettings.model_validate(settings), memory or plugin.memory())


def event(number: int, key: str | None = "a", *headers: Header, body: bytes | None = None) -> Message:
    known: list[Header] = [("id", f"id-{number}".encode()), ("position", b"0/1:0")]
    value = str(number).encode() if body is None else body
    return Message("orders", None if key is None else key.encode(), value, [*known, *headers], 1_700_000_000_000)


def until(sink: Sink, done: Callable[[], object], what: str) -> list[Receipt | Refusal]:
    """Gives the sink its time until that is so; what it told meanwhile."""
    told: list[Receipt | Refusal] = []

    def met() -> object:
        told.extend(sink.receipts(0.02))
        return done()

    wait_until(met, 30, what)
    return told


def durable(sink: Sink, count: int = 1) -> None:
    settled = 0
    deadline = time.monotonic() + 30
    while settled < count:
        assert time.monotonic() < deadline, f"{settled} receipts for {count} messages; {sink.trouble()}"
        for each in sink.receipts(0.02):
            assert isinstance(each, Receipt), each
            settled += each.messages


def refusal(sink: Sink) -> Refusal:
    told: list[Refusal] = []

    def met() -> bool:
        told.extend(each for each in sink.receipts(0.02) if isinstance(each, Refusal))
        return bool(told)

    wait_until(met, 30, "a refusal")
    return told[0]


def in_trouble(sink: Sink) -> str:
    """What it says when something goes wrong; nothing may have become durable until then."""
    assert until(sink, sink.trouble, "trouble") == []
    assert "s3cret" not in sink.trouble()
    return sink.trouble()


def bodies(endpoint: Endpoint) -> list[int]:
    return [int(request.body) for request in endpoint.requests]


@pytest.mark.parametrize(
    ("status", "error", "scope"),
    [
        ("400 Bad Request", "refused", "message"),
        ("401 Unauthorized", "not_authorized", "sink"),
        ("403 Forbidden", "not_authorized", "sink"),
        ("409 Conflict", "refused", "message"),
        ("410 Gone", "endpoint_gone", "topic"),
        ("413 Content Too Large", "too_large", "message"),
        ("415 Unsupported Media Type", "refused", "message"),
        ("422 Unprocessable Content", "refused", "message"),
        ("301 Moved Permanently", "redirected", "topic"),
        ("302 Found", "redirected", "topic"),
    ],
)
def test_an_answer_that_is_about_the_message_is_a_refusal(status: str, error: str, scope: str) -> None:
    with Endpoint(answering(response(status, body="no\r\nsuch\torder"))) as endpoint, closing(opened(endpoint)) as sink:
        sent = event(1)
        assert sink.publish(sent, 7)
        told = refusal(sink)
        assert (told.message, told.ticket, told.error, told.scope, told.ends) == (sent, 7, error, scope, False)
        assert told.reason.startswith(f"http://127.0.0.1:{endpoint.port} answered {status[:3]} ")
        assert told.reason.endswith(": no such order")
        assert told.hint
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed"])
def test_an_endpoint_that_is_being_deployed_is_waited_for(status: str) -> None:
    with Endpoint(answering(*[response(status)] * 3, OK)) as endpoint, closing(opened(endpoint)) as sink:
        assert sink.publish(event(1), 0)
        assert in_trouble(sink).endswith(f": it answered {status}, and may be there soon")
        durable(sink)
        assert bodies(endpoint) == [1] * 4


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed"])
def test_an_endpoint_that_stays_missing_is_a_refusal(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.sinks.webhook.connection._MISSING", 0.5)
    with Endpoint(answering(response(status))) as endpoint, closing(opened(endpoint)) as sink:
        first, second = event(1), event(2, "b")
        assert sink.publish(first, 0)
        told = refusal(sink)
        assert (told.message, told.error, told.scope, told.ends) == (first, "unknown_endpoint", "message", False)
        assert len(endpoint.requests) > 1
        assert sink.publish(second, 0)
        before = len(endpoint.requests)
        assert refusal(sink).message == second
        assert len(endpoint.requests) == before + 1, "it was missing for long enough before"


def test_one_message_that_is_answered_404_is_refused_though_others_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.sinks.webhook.connection._MISSING", 0.5)

    def behave(conversation: Conversation) -> None:
        while True:
            conversation.say(response("404 Not Found") if conversation.request().body == b"0" else OK)

    with Endpoint(behave) as endpoint, closing(opened(endpoint)) as sink:
        lost = event(0)
        assert sink.publish(lost, 0)
        told: list[Receipt | Refusal] = []
        for number in count(1):
            sink.publish(event(number, "b"), 0)
            told += sink.receipts(0.05)
            if any(isinstance(each, Refusal) for each in told):
                break
        assert [each.message for each in told if isinstance(each, Refusal)] == [lost]
        assert any(isinstance(each, Receipt) for each in told)


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "204 No Content", "299 Whatever"])
def test_2xx_is_durable(status: str) -> None:
    answer = f"HTTP/1.1 {status}\r\n\r\n" if status.startswith("204") else response(status)
    with Endpoint(answering(answer)) as endpoint, closing(opened(endpoint)) as sink:
        assert sink.publish(event(1), 0)
        durable(sink)


@pytest.mark.parametrize(
    "answer",
    [
        response("408 Request Timeout"),
        response("409 Conflict", "Retry-After: 0"),
        response("425 Too Early"),
        response("429 Too Many Requests"),
        response("500 Internal Server Error"),
        response("502 Bad Gateway"),
        response("503 Service Unavailable"),
        response("599"),
    ],
)
def test_an_answer_that_says_nothing_about_the_message_is_waited_for(answer: str) -> None:
    with Endpoint(answering(answer, OK)) as endpoint, closing(opened(endpoint)) as sink:
        assert sink.publish(event(1), 0)
        assert in_trouble(sink) == f"http://127.0.0.1:{endpoint.port}: it answered {answer[9:].partition(chr(13))[0]}"
        durable(sink)
        assert sink.trouble() == ""
        assert [request.header("webhook-id") for request in endpoint.requests] == ["id-1"] * 2


@pytest.mark.parametrize("pause", ["1", formatdate(1_700_000_001, usegmt=True)])
def test_a_pause_that_the_endpoint_asks_for_is_kept(pause: str) -> None:
    busy = response("429 Too Many Requests", f"Retry-After: {pause}", f"Date: {formatdate(1_700_000_000, usegmt=True)}")
    at: list[float] = []

    def behave(conversation: Conversation) -> None:
        while True:
            conversation.request()
            at.append(time.monotonic())
            conversation.say(busy if len(at) == 1 else OK)

    with Endpoint(behave) as endpoint, closing(opened(endpoint)) as sink:
        assert sink.publish(event(1), 0)
        assert "429 Too Many Requests and asks for a pause of 1 s" in in_trouble(sink)
        assert sink.publish(event(2, "b"), 0), "other keys are taken meanwhile"
        durable(sink, 2)
    assert at[1] - at[0] >= 1
    assert len(at) == 3


def test_a_pause_that_the_endpoint_asked_for_outlasts_the_run() -> None:
    memory = plugin.memory()
    with Endpoint(answering(response("503 Service Unavailable", "Retry-After: 60"), OK)) as endpoint:
        with closing(opened(endpoint, memory)) as sink:
            assert sink.publish(event(1), 0)
            in_trouble(sink)
        with closing(opened(endpoint, memory)) as successor:
            assert successor.publish(event(1), 0)
            for _ in range(5):
                assert list(successor.receipts(0.05)) == []
    assert len(endpoint.requests) == 1


def test_while_an_endpoint_fails_it_is_asked_by_one_request_at_a_time() -> None:
    works = Event()

    def behave(conversation: Conversation) -> None:
        while True:
            conversation.request()
            conversation.say(OK if works.is_set() else response("503 Service Unavailable"))

    with Endpoint(behave) as endpoint, closing(opened(endpoint, max_connections=4)) as sink:
        for number in range(50):
            assert sink.publish(event(number, str(number)), 0)
        assert until(sink, lambda: len(endpoint.requests) >= 6, "two further requests") == []
        assert len(endpoint.requests) <= 8, "the circuit is not open"
        assert sink.trouble().startswith(f"http://127.0.0.1:{endpoint.port}: it answered 503 Service Unavailable")
        works.set()
        durable(sink, 50)
    assert sorted({*bodies(endpoint)}) == list(range(50))


def test_an_endpoint_with_a_rate_limit_refuses_few_requests() -> None:
    """As nginx limits them: no `Retry-After`, but 429 to what comes sooner than 50 ms after the last that it took."""
    at: list[float] = []
    refused: list[float] = []
    deciding = Lock()

    def behave(conversation: Conversation) -> None:
        while True:
            conversation.request()
            with deciding:
                now = time.monotonic()
                (refused if at and now - at[-1] < 0.05 else at).append(now)
                said = response("429 Too Many Requests") if refused and refused[-1] == now else OK
            conversation.say(said)

    with Endpoint(behave) as endpoint, closing(opened(endpoint)) as sink:
        for number in range(60):
            assert sink.publish(event(number, str(number)), 0)
        durable(sink, 60)
    assert len(refused) < 64 + 30, "those that were on their way at first, and few more"


def test_a_message_that_its_receiver_fails_on_delays_its_own_key_only() -> None:
    works = Event()

    def behave(conversation: Conversation) -> None:
        while True:
            poison = conversation.request().body == b"0" and not works.is_set()
            conversation.say(response("500 Internal Server Error") if poison else OK)

    with Endpoint(behave) as endpoint, closing(opened(endpoint)) as sink:
        assert sink.publish(event(0), 0)
        assert "500" in in_trouble(sink)
        for number in range(1, 50):
            assert sink.publish(event(number, "a" if number % 2 else "b"), 0)
        durable(sink, 24)
        assert {*bodies(endpoint)} == {0, *range(2, 50, 2)}
        works.set()
        durable(sink, 26)
    of_a = [number for number in bodies(endpoint) if number % 2 or not number]
    assert [*dict.fromkeys(of_a)] == [0, *range(1, 50, 2)]


def test_a_refused_message_is_not_overtaken_by_those_of_its_key() -> None:
    memory = plugin.memory()

    def behave(conversation: Conversation) -> None:
        while True:
            conversation.say(response("422 x") if conversation.request().body == b"1" else OK)

    with Endpoint(behave) as endpoint:
        with closing(opened(endpoint, memory)) as sink:
            for number in range(3):
                assert sink.publish(event(number), 0)
            assert refusal(sink).ends
            assert not sink.publish(event(2), 0)
        with closing(opened(endpoint, memory)) as careful:
            assert careful.publish(event(1), 0)
            assert not careful.publish(event(2), 0), "taken before the one ahead of it was decided"
            assert not refusal(careful).ends
            assert careful.publish(event(2), 0)
            durable(careful)
    assert bodies(endpoint) == [0, 1, 1, 2]


def test_connections_that_break_again_and_again_keep_the_order_of_a_key() -> None:
    def behave(conversation: Conversation) -> None:
        for _ in range(3):
            conversation.request()
            conversation.say(OK)
        conversation.request()  # no answer, although it arrived

    with Endpoint(behave) as endpoint, closing(opened(endpoint)) as sink:
        for number in range(10):
            for key in range(3):
                assert sink.publish(event(10 * key + number, str(key)), 0)
        durable(sink, 30)
    for key in range(3):
        arrived = [number for number in bodies(endpoint) if number // 10 == key]
        assert arrived == sorted(arrived), "overtaken"
        assert {*arrived} == {*range(10 * key, 10 * key + 10)}


def says(text: str | bytes) -> Behaviour:
    """To each request."""

    def behave(conversation: Conversation) -> None:
        while True:
            conversation.request()
            conversation.say(text)

    return behave


def speaks_first(conversation: Conversation) -> None:
    conversation.say(OK)
    conversation.until_the_end()


def repeats(text: str, begin: str = "") -> Behaviour:
    """Without end, and slowly enough to be read."""

    def behave(conversation: Conversation) -> None:
        conversation.request()
        conversation.say(begin)
        while not conversation.wait(0.002):
            conversation.say(text)

    return behave


@pytest.mark.parametrize(
    ("behaves", "trouble"),
    [
        pytest.param(lambda conversation: None, "", id="closes at once"),
        pytest.param(lambda conversation: conversation.request(), "without an answer", id="closes after the request"),
        pytest.param(lambda conversation: conversation.until_the_end(), "not answered within", id="reads nothing"),
        pytest.param(says(""), "not answered within 0.3 s", id="never answers"),
        pytest.param(repeats("X-Slow: 1\r\n", "HTTP/1.1 200 OK\r\n"), "", id="slow headers without end"),
        pytest.param(repeats("x" * 10_000, "HTTP/1.1 200 OK\r\nX: "), "not HTTP", id="a header without end"),
        pytest.param(repeats("HTTP/1.1 100 Continue\r\n\r\n"), "not answered within", id="100 again and again"),
        pytest.param(says("SSH-2.0-OpenSSH_9.2\r\n\r\n"), "not HTTP", id="another protocol"),
        pytest.param(says(b"\0\xff" * 100 + b"\r\n\r\n"), "not HTTP", id="nonsense"),
        pytest.param(
            says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "101", id="101"
        ),
    ],
)
def test_a_hostile_endpoint_makes_nothing_durable_and_is_asked_again(behaves: Behaviour, trouble: str) -> None:
    with Endpoint(behaves) as endpoint, closing(opened(endpoint, request_timeout=0.3)) as sink:
        assert sink.publish(event(1), 0)
        assert trouble in in_trouble(sink)
        endpoint.behaves = answering(OK)
        durable(sink)


def reads_the_head_and_says(text: str, *, then_resets: bool = False) -> Behaviour:
    def behave(conversation: Conversation) -> None:
        conversation.head()
        conversation.say(text)
        if not then_resets:
            conversation.until_the_end()

    return behave


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    "behaves",
    [
        pytest.param(speaks_first, id="before anything"),
        pytest.param(reads_the_head_and_says(OK), id="after the head"),
        pytest.param(reads_the_head_and_says(response("200 OK", "Connection: close")), id="after the head, and closes"),
        pytest.param(reads_the_head_and_says(OK, then_resets=True), id="after the head, and resets"),
    ],
)
def test_an_answer_before_the_whole_request_was_sent_makes_nothing_durable(
    behaves: Behaviour, tls: bool, authority: Authority
) -> None:
    large = event(1, body=b"1" * 20_000_000)
    with (
        Endpoint(behaves, serving(authority) if tls else None) as endpoint,
        closing(opened(endpoint, ca_file=str(authority.certificate))) as sink,
    ):
        assert sink.publish(large, 0)
        in_trouble(sink)
        endpoint.behaves = answering(OK)
        durable(sink)
    assert endpoint.requests[-1].body == large.value


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("connection", ["keep-alive", "close"])
@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
def test_a_body_of_any_size_arrives_once(size: int, connection: str, tls: bool, authority: Authority) -> None:
    def behave(conversation: Conversation) -> None:
        while True:
            conversation.request()
            conversation.say(response("200 OK", f"Connection: {connection}"))
            if connection == "close":
                return

    with (
        Endpoint(behave, serving(authority) if tls else None) as endpoint,
        closing(opened(endpoint, ca_file=str(authority.certificate))) as sink,
    ):
        for number in range(5):
            assert sink.publish(event(number, body=b"x" * size), 0)
        durable(sink, 5)
    assert [len(request.body) for request in endpoint.requests] == [size] * 5


def test_what_comes_after_an_answer_is_no_answer_to_the_next_request() -> None:
    def behave(conversation: Conversation) -> None:
        conversation.request()
        conversation.say(OK)
        with suppress(OSError):
            conversation.say(OK)
            conversation.request()
            conversation.say(response("422 Unprocessable Content"))

    with Endpoint(behave) as endpoint, closing(opened(endpoint)) as sink:
        assert sink.publish(event(1), 0)
        durable(sink)
        until(sink, lambda: list(sink.receipts(0.2)) == [], "a pause")
        endpoint.behaves = answering(response("422 Unprocessable Content"))
        assert sink.publish(event(2), 0)
        assert refusal(sink).message.value == b"2"


@pytest.mark.parametrize(
    "behaves",
    [
        pytest.param(repeats("x" * 10_000, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), id="bad chunks"),
        pytest.param(repeats("x" * 10_000, "HTTP/1.1 200 OK\r\n\r\n"), id="a body without end"),
        pytest.param(says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), id="half of its body"),
        pytest.param(says("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nxxxx"), id="no gzip"),
        pytest.param(says("HTTP/1.0 200 OK\r\n\r\n"), id="HTTP/1.0"),
        pytest.param(says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\n\r\n\0\xff"), id="nonsense"),
    ],
)
def test_what_stands_in_an_answer_that_says_2xx_does_not_matter_and_is_not_read_for_long(behaves: Behaviour) -> None:
    with Endpoint(behaves) as endpoint, closing(opened(endpoint, request_timeout=5)) as sink:
        for number in range(3):
            assert sink.publish(event(number), 0)
        durable(sink, 3)
        # bad chunks that are read together with the header make no answer of it: then it is asked for again
        assert {request.header("cookie") for request in endpoint.requests} == {None}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([f"Content-Security-Policy: {'x' * 60_000}"], id="a long one"),
        pytest.param([f"X-{number}: {'x' * 20}" for number in range(500)], id="many"),
        pytest.param([f"Set-Cookie: {number}={'x' * 8_000}" for number in range(60)], id="many long ones"),
    ],
)
def test_an_answer_with_long_headers_is_an_answer(headers: list[str]) -> None:
    with Endpoint(answering(response("200 OK", *headers))) as endpoint, closing(opened(endpoint)) as sink:
        for number in range(3):
            assert sink.publish(event(number), 0)
        durable(sink, 3)
        assert bodies(endpoint) == [0, 1, 2]


def test_a_refusal_before_the_whole_request_was_sent_is_told_once() -> None:
    """The rest of the body meets a connection that is gone; the next of the key may be on its way by then."""

    def behave(conversation: Conversation) -> None:
        conversation.say(response("413 Content Too Large"))
        conversation.until_the_end()  # a reset could take the answer with it

    with Endpoint(behave) as endpoint, closing(opened(endpoint)) as sink:
        assert sink.publish(event(1, body=b"1" * 20_000_000), 0)
        while True:
            told = until(sink, lambda: True, "an answer")
            if told:
                break
        assert [each.error for each in told if isinstance(each, Refusal)] == ["too_large"]
        for _ in range(20):
            assert list(sink.receipts(0.05)) == []
        assert endpoint.connections == 1


def test_a_refusal_with_a_body_without_end_is_told() -> None:
    with Endpoint(repeats("no ", "HTTP/1.1 400 Bad Request\r\n\r\n")) as endpoint, closing(opened(endpoint)) as sink:
        assert sink.publish(event(1), 0)
        assert len(refusal(sink).reason) < 300


def test_no_redirect_is_followed() -> None:
    """Cloud providers answer any process on the machine at this address, with its credentials."""
    moved = response("307 Temporary Redirect", "Location: http://169.254.169.254/latest/meta-data/")
    with Endpoint(answering(moved)) as endpoint, closing(opened(endpoint)) as sink:
        assert sink.publish(event(1), 0)
        told = refusal(sink)
        assert (told.error, told.scope) == ("redirected", "topic")
        assert "follows no redirect" in told.hint
        assert "169.254" not in told.reason


def test_a_name_that_leads_to_a_private_address_is_not_connected_to() -> None:
    with Endpoint(answering(OK)) as endpoint:
        url = f"http://0x7f.1:{endpoint.port}/hook"  # a name that every resolver takes for 127.0.0.1
        with closing(opened(endpoint, url=url, allow_private_addresses=False)) as sink:
            assert sink.publish(event(1), 0)
            assert "127.0.0.1 is a private address; sink.allow_private_addresses would allow it" in in_trouble(sink)
        assert endpoint.connections == 0


def test_a_name_that_led_elsewhere_when_it_was_looked_up_first_is_not_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS rebinding: the doctor saw a public address."""
    with Endpoint(answering(OK)) as endpoint:
        answers: Iterator[str] = iter(["8.8.8.8", "127.0.0.1"])
        seen: list[str] = []

        def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
            seen.append(next(answers, "127.0.0.1"))
            return [(2, 1, 6, "", (seen[-1], endpoint.port if seen[-1] == "127.0.0.1" else 9))]

        monkeypatch.setattr("socket.getaddrinfo", look_up)
        settings = {"url": f"http://rebinding.example:{endpoint.port}/", "allow_private_addresses": False}
        assert look_up("rebinding.example", 80)[0][4][0] == "8.8.8.8"
        with closing(opened(endpoint, **settings)) as sink:
            assert sink.publish(event(1), 0)
            assert "127.0.0.1 is a private address" in in_trouble(sink)
        assert endpoint.connections == 0
        assert seen[1:]


def test_a_request_is_signed_with_each_secret_and_its_id_stays_over_retries() -> None:
    with (
        Endpoint(answering(response("500 x"), OK)) as endpoint,
        closing(opened(endpoint, signing_secrets=SECRETS)) as sink,
    ):
        assert sink.publish(event(1, body=b'{"a":  1.10}'), 0)
        durable(sink)
    assert len(endpoint.requests) == 2
    for request in endpoint.requests:
        assert request.header("webhook-id") == "id-1"
        for secret in SECRETS:
            Webhook(secret).verify(request.body, {name.lower(): value.decode() for name, value in request.headers})


def test_a_request_has_the_rows_headers_its_key_and_what_the_settings_say() -> None:
    settings = {"headers": {"X-Api-Key": "s3cret"}, "bearer_token": "t0ken", "content_type": "application/x-own"}
    with Endpoint(answering(OK)) as endpoint, closing(opened(endpoint, **settings)) as sink:
        assert sink.publish(event(1, "k", ("Trace-Id", b"abc"), ("type", "Größe".encode())), 0)
        assert sink.publish(event(2, None, ("content-type", b"text/plain")), 0)
        durable(sink, 2)
        assert sink.publish(event(3, None, ("x-api-key", b"another")), 0)
        assert refusal(sink).reason == "the header 'x-api-key' is HTTP's own, or walrelay's"
    by_id: dict[str | None, Request] = {request.header("id"): request for request in endpoint.requests}
    first, second = by_id["id-1"], by_id["id-2"]
    assert (first.header("key"), first.header("type"), first.header("trace-id")) == ("k", "Größe", "abc")
    assert (first.header("x-api-key"), first.header("authorization")) == ("s3cret", "Bearer t0ken")
    assert (first.header("content-type"), second.header("content-type")) == ("application/x-own", "text/plain")
    assert (second.header("key"), second.header("webhook-signature")) == (None, None)
    names = [name.lower() for name, _ in first.headers]
    assert len(names) == len({*names})


def test_what_a_template_puts_into_the_path_stays_one_part_of_it() -> None:
    with Endpoint(answering(OK)) as endpoint:
        url = endpoint.url + "/{topic}/{key}?token=a%2Fb"
        with closing(opened(endpoint, url=url)) as sink:
            assert sink.publish(event(1, "a/b c?#%ü"), 0)
            durable(sink)
            for key in ("..", ".", "", None):
                assert sink.publish(event(2, key), 0)
                assert refusal(sink).error == "unroutable"
    assert [request.path for request in endpoint.requests] == ["/hook/orders/a%2Fb%20c%3F%23%25%C3%BC?token=a%2Fb"]


@pytest.mark.parametrize("structured", [False, True])
def test_an_event_of_cloudevents_is_one_by_the_http_binding(structured: bool) -> None:
    """As their own library reads it. Kafka's binding, in which the envelope names headers, has other names."""
    message = wrapped(CloudEvents("/shop", structured=structured))
    with Endpoint(answering(OK)) as endpoint, closing(opened(endpoint)) as sink:
        assert sink.publish(message, 0)
        durable(sink)
    (request,) = endpoint.requests
    read = from_http_event(HTTPMessage({name: value.decode() for name, value in request.headers}, request.body))
    assert (read.get_id(), read.get_source(), read.get_type()) == ("42", "/shop", "OrderPlaced")
    assert read.get_subject() == 'Zoë "100 %"'
    assert read.get_data() == {"total": 1.1}
    kind = "application/cloudevents+json" if structured else "application/json"
    assert (request.header("content-type") or "").startswith(kind)


def wrapped(envelope: CloudEvents) -> Message:
    """As the relay makes it of a row."""
    record = OutboxRecord(
        LSN(16), 0, 0, "42", "order", 'Zoë "100 %"', "OrderPlaced", b'{"total": 1.10}', None, None, None, None
    )
    raw = Message("orders", b"1", record.payload, [("id", b"42"), ("type", b"OrderPlaced"), ("position", b"0/10:0")], 0)
    fields = Fields({})
    return envelope.wrapping(fields)(record, fields.known(), raw)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def serving(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("server"))
    return context


def test_a_certificate_is_checked_and_one_of_the_relays_own_is_shown(authority: Authority) -> None:
    context = serving(authority)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = authority.sign("relay")
    trusted = {"ca_file": str(authority.certificate)}
    own = {"certificate_file": str(certificate), "key_file": str(key)}
    with Endpoint(answering(OK), context) as endpoint:
        with closing(opened(endpoint)) as stranger:
            assert stranger.publish(event(1), 0)
            assert "its certificate was not accepted" in in_trouble(stranger)
        with closing(opened(endpoint, **trusted)) as unknown:
            assert unknown.publish(event(1), 0)
            assert in_trouble(unknown).endswith(": the connection failed: TLS: tlsv13 alert certificate required")
        with closing(opened(endpoint, **trusted, **own)) as sink:
            assert sink.publish(event(1), 0)
            durable(sink)
    assert len(endpoint.requests) == 1


def copied(files: tuple[Path, Path], to: tuple[Path, Path]) -> None:
    """As those that renew certificates do it, one file after the other."""
    for source, target in zip(files, to, strict=True):
        other = target.with_name("renewed")
        other.write_bytes(source.read_bytes())
        other.replace(target)


def test_certificates_that_are_renewed_are_used_without_another_run(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    context = serving(authority)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    own = tmp_path / "relay.crt", tmp_path / "relay.key"
    copied(other.sign("relay"), own)
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(other.certificate.read_bytes())
    files = {"ca_file": str(trusted), "certificate_file": str(own[0]), "key_file": str(own[1])}
    with Endpoint(answering(OK), context) as endpoint, closing(opened(endpoint, **files)) as sink:
        assert sink.publish(event(1), 0)
        assert "its certificate was not accepted" in in_trouble(sink)
        trusted.write_bytes(authority.certificate.read_bytes())
        until(sink, lambda: "TLS: tlsv1 alert unknown ca" in sink.trouble(), "the endpoint to refuse the certificate")
        own[1].write_text("")  # half of it is there
        until(sink, sink.trouble, "another try")
        copied(authority.sign("relay"), own)
        durable(sink)
        assert bodies(endpoint) == [1]


def test_the_doctor_hears_that_an_endpoint_refuses_the_certificate(authority: Authority) -> None:
    context = serving(authority)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with Endpoint(answering(OK), context) as endpoint:
        settings = {"url": endpoint.url, "allow_private_addresses": True, "ca_file": str(authority.certificate)}
        finding, *_ = plugin.examine(WebhookSettings.model_validate(settings), ["orders"])
        assert finding.verdict == "problem"
        assert finding.detail.endswith("cannot be reached: TLS: tlsv13 alert certificate required")
        assert "sink.certificate_file" in finding.fix


def test_the_doctor_says_what_it_can_without_sending_an_event(authority: Authority) -> None:
    def findings(url: str, **settings: Any) -> list[tuple[str, str]]:
        made = WebhookSettings.model_validate({"url": url, "allow_private_addresses": True, **settings})
        return [(each.verdict, each.detail) for each in plugin.examine(made, ["orders"])]

    signed = {"signing_secrets": SECRETS}
    with Endpoint(answering(OK), serving(authority)) as endpoint:
        (well,) = findings(endpoint.url, ca_file=str(authority.certificate), **signed)
        assert well[0] == "ok"
        assert well[1].startswith(f"https://127.0.0.1:{endpoint.port} accepts connections (at 127.0.0.1, TLSv1.")
        (untrusted,) = findings(endpoint.url, **signed)
        assert untrusted[0] == "problem"
        assert "certificate verify failed" in untrusted[1]
        (unreadable,) = findings(endpoint.url, ca_file="/nowhere", **signed)
        assert unreadable[0] == "problem"
        assert "cannot be read" in unreadable[1]
    (away,) = findings(endpoint.url, **signed)
    assert away[0] == "problem"
    assert "cannot be reached" in away[1]
    with Endpoint(answering(OK)) as plain:
        verdicts = findings(plain.url)
        assert [verdict for verdict, _ in verdicts] == ["ok", "warning", "warning"]
        hidden = findings(f"http://0x7f.1:{plain.port}/", allow_private_addresses=False, **signed)
        assert ("problem", "0x7f.1 leads to 127.0.0.1, a private address, where nothing is sent") in hidden
    assert endpoint.requests == plain.requests == []
