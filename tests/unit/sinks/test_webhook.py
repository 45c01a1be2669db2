"""Webhooks, as far as they need no server: addresses, answers, circuits, and what the settings refuse."""

import time

import pytest

from walrelay.config import parse
from walrelay.errors import SettingsError
from walrelay.model import Message
from walrelay.sinks.hosting import Misfit
from walrelay.sinks.hosting.circuit import LAST_PAUSE, Circuit, backed_off
from walrelay.sinks.webhook.answers import LONGEST_PAUSE, answer
from walrelay.sinks.webhook.names import RequestHeaders
from walrelay.sinks.webhook.networks import is_public


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("198.18.0.1", "192.0.2.1", "224.0.0.1", "239.1.1.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fd00::1", "fec0::1", "ff02::1", "fd00:ec2::254"),
        *("::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"),
        *("2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1"),
    ],
)
def test_an_address_that_leads_inside_is_not_public_however_it_is_written(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_an_address_on_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry-After": "120"}, 120),
        ({"Retry-After": " 7 "}, 7),
        ({"Retry-After": "9" * 400}, LONGEST_PAUSE),
        ({"Retry-After": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10),
        ({"Retry-After": "Tue, 14 Nov 2023 22:13:30 GMT", "Date": "Tue, 14 Nov 2023 22:13:25 GMT"}, 5),
        ({"Retry-After": "Tue, 14 Nov 2023 22:13:00 GMT"}, 0),
        ({"Retry-After": "Tue, 14 Nov 2033 22:13:00 GMT"}, LONGEST_PAUSE),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "1e3"}, None),
        ({"Retry-After": "²"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "Tue, 99 Nov 99999 22:13:00 GMT"}, None),
        ({}, None),
    ],
)
def test_the_pause_that_an_endpoint_asks_for(headers: dict[str, str], pause: float | None) -> None:
    told = answer(429, headers, 1_700_000_000)
    assert (told.verdict, told.pause, told.speaks_for_all) == ("wait", pause, True)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Europe/Berlin"])
@pytest.mark.parametrize(
    "date",
    [
        *("Tue, 14 Nov 2023 22:13:30 GMT", "Tuesday, 14-Nov-23 22:13:30 GMT", "Tue Nov 14 22:13:30 2023"),
        *("Tue, 14 Nov 2023 22:13:30 -0000", "Tue, 14 Nov 2023 22:13:30", "Tue, 14 Nov 2023 17:13:30 -0500"),
    ],
)
def test_a_date_means_the_same_in_every_form_and_zone(date: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert answer(429, {"Retry-After": date}, 1_700_000_000).pause == 10
        assert answer(429, {"Retry-After": "Tue, 14 Nov 2023 22:13:40 GMT", "Date": date}, 0).pause == 10
    finally:
        monkeypatch.undo()
        time.tzset()


def test_every_status_has_one_meaning() -> None:
    verdicts = {status: answer(status, {}, 0).verdict for status in range(600)}
    assert {status for status, verdict in verdicts.items() if verdict == "durable"} == {*range(200, 300)}
    waits = {status for status, verdict in verdicts.items() if verdict == "wait"}
    assert waits == {*range(200), 408, 421, 423, 425, 429, *range(500, 600)}


def test_pauses_grow_up_to_half_a_minute() -> None:
    pauses = [backed_off(failures) for failures in range(1, 12)]
    assert pauses == sorted(pauses)
    assert pauses[:3] == [0.25, 0.5, 1]
    assert backed_off(10_000) == LAST_PAUSE


def test_a_circuit_opens_when_different_messages_fail_or_when_one_speaks_for_all() -> None:
    circuit = Circuit()
    for now in range(10):
        circuit.failed(1, now, now, speaks_for_all=False, pause=None)
    assert not circuit.open, "one message may be the receiver's own trouble with it"
    circuit.failed(2, 10, 10, speaks_for_all=False, pause=None)
    circuit.failed(3, 10, 10, speaks_for_all=False, pause=None)
    assert circuit.open
    circuit.answered(11)
    assert not circuit.open
    circuit.failed(1, 12, 12, speaks_for_all=True, pause=None)
    assert circuit.open


def test_requests_that_were_sent_before_a_circuit_opened_neither_close_it_nor_lengthen_its_pause() -> None:
    circuit = Circuit()
    for message in range(64):
        circuit.failed(message, 1, 2, speaks_for_all=True, pause=None)
    assert circuit.until == 2.25
    circuit.answered(1)
    assert circuit.open
    circuit.failed(0, 1, 2, speaks_for_all=True, pause=60)
    assert circuit.until == 62, "but a pause that is asked for counts"
    circuit.answered(62)
    assert not circuit.open


@pytest.mark.parametrize("allowed", [0.5, 2, 20, 300])
def test_a_rate_limit_is_kept_to_without_being_told_it(allowed: float) -> None:
    """By 64 senders whose requests take no time; as simulated, in seconds."""
    circuit, now, taken, refused, last = Circuit(), 0.0, 0, 0, -10.0
    while taken < 400:
        now += max(circuit.wait(now), 1e-6)
        circuit.begins(now)
        for sender in range(1 if circuit.open or circuit.distance else 64):
            began = now - 1e-7 * (sender > 0)  # together with the first
            if now - last >= 1 / allowed:
                taken, last = taken + 1, now
                circuit.answered(began)
            else:
                refused += 1
                circuit.failed(refused, began, now, speaks_for_all=True, pause=None, too_fast=True)
    assert refused < 0.3 * taken
    assert taken > 0.5 * allowed * (now - 6), "some seconds go by until it is found"


def test_after_a_rate_limit_the_distance_ends_within_seconds() -> None:
    circuit, now = Circuit(), 0.0
    circuit.failed(1, now, now, speaks_for_all=True, pause=None, too_fast=True)
    answers = 0
    while circuit.open or circuit.distance:
        now += max(circuit.wait(now), 0.0)
        circuit.begins(now)
        circuit.answered(now)
        answers += 1
    assert now < 10
    assert answers < 200


def test_a_broker_that_was_away_is_met_without_a_distance() -> None:
    circuit = Circuit()
    circuit.failed(1, 0, 0, speaks_for_all=True, pause=None)
    circuit.answered(1)
    assert (circuit.open, circuit.distance, circuit.wait(1)) == (False, 0, -1)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("url: ftp://hooks.example.com", "sink.url: a URL begins with https://host"),
        ("url: hooks.example.com/x", "sink.url: a URL begins with https://host"),
        ("url: 'https://'", "sink.url: a URL begins with https://host"),
        ("url: https://me:s3cret@hooks.example.com/", "sink.url: credentials belong into bearer_token or headers"),
        ("url: https://{topic}.example.com/", "sink.url: only the path may be a template"),
        ("url: https://a.example.com/?k={key}", "sink.url: only the path may be a template"),
        ("url: https://a.example.com/{nothing}", "sink.url: '/{nothing}' is no template of an address"),
        ("url: https://zam\u00f3wienia.example/in", "sink.url: the host zam\u00f3wienia.example is written xn--zam"),
        ("url: https://zam%C3%B3wienia.example/in", "sink.url: the host zam\u00f3wienia.example is written xn--zam"),
        ("url: https://a.example.com/a b", "sink.url: a URL has no blanks and ASCII characters only"),
        ("url: 'https://a.example.com/#x'", "sink.url: a fragment (#...) is never sent"),
        ("url: https://a.example.com/../x", "sink.url: its path has a . or .. in it"),
        ("url: https://a.example.com:99999/", "sink.url: it is no URL"),
        ("url: http://2130706433/", "sink.url: 2130706433 is not how an address is written"),
        ("url: http://10.0.0.5/", "sink: url leads to 10.0.0.5, a private address: set allow_private_addresses"),
        ("url: http://localhost:8080/", "sink: url leads to localhost, a private address"),
        ("url: 'http://[::1]/'", "sink: url leads to ::1, a private address"),
        ("signing_secrets: [whsec_c2hvcnQ=]", "sink.signing_secrets: a secret is whsec_ and 24 to 64 bytes"),
        ("signing_secrets: ['not base64!']", "sink.signing_secrets: a secret is whsec_ and 24 to 64 bytes"),
        ("headers: {x_api_key: s3cret}", "sink.headers: 'x_api_key' is no name of a header"),
        ("headers: {Content-Length: '1'}", "sink.headers: the header 'Content-Length' is HTTP's own or walrelay's"),
        ("headers: {webhook-id: s3cret}", "sink.headers: the header 'webhook-id' is HTTP's own or walrelay's"),
        ('headers: {x-a: "s3cret\\r\\nHost: x"}', "sink.headers: the header 'x-a' has blanks around it or characters"),
        ("headers: {x-a: s3cret, X-A: b}", "sink.headers: a header is there twice"),
        ("{bearer_token: s3cret, headers: {Authorization: b}}", "sink: bearer_token and headers both have an"),
        ('bearer_token: "s3cret\\n"', "sink.bearer_token: a header can have ASCII characters only"),
        ("key_header: Host", "sink.key_header: 'Host' is no name for a header, or HTTP's own"),
        ("max_connections: 0", "sink.max_connections: "),
    ],
)
def test_settings_that_cannot_work_are_refused_and_show_no_secret(line: str, problem: str) -> None:
    inner = line[1:-1] if line.startswith("{") else line
    url = "" if line.startswith("url") else "url: https://hooks.example.com/x, "
    with pytest.raises(SettingsError) as caught:
        parse(f"source: {{dsn: postgresql://localhost/shop}}\nsink: {{kind: webhook, {url}{_flow(inner)}}}\n", "f", {})
    assert problem in str(caught.value)
    assert "s3cret" not in str(caught.value)


def _flow(text: str) -> str:
    """As it may stand between braces."""
    name, _, value = text.partition(": ")
    return text if value[:1] in "'\"{[" or name != "url" else f"url: '{value}'"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tenant_id", "'tenant_id' is no name for a header of HTTP: letters, digits and hyphens pass everywhere"),
        ("Cookie", "the header 'Cookie' is HTTP's own, or walrelay's"),
        ("X-Forwarded-For", "the header 'X-Forwarded-For' is HTTP's own, or walrelay's"),
        ("x-http-method-override", "the header 'x-http-method-override' is HTTP's own, or walrelay's"),
        ("x-api-key", "the header 'x-api-key' is HTTP's own, or walrelay's"),
        ("ID", "the header 'ID' is there twice, and HTTP makes one of them"),
    ],
)
def test_a_header_that_would_be_dropped_or_obeyed_does_not_fit(name: str, why: str) -> None:
    headers = RequestHeaders("key", "application/json", ["x-api-key"])
    misfit = headers.of(Message("orders", b"1", b"{}", [("id", b"1"), (name, b"2")], 0))
    assert isinstance(misfit, Misfit)
    assert misfit.reason == why


def test_attributes_of_cloudevents_are_percent_encoded_and_other_headers_are_not() -> None:
    headers = RequestHeaders(None, "application/json", [])
    made = headers.of(
        Message("orders", b"1", b"{}", [("ce_specversion", b"1.0"), ("ce_subject", 'é "%'.encode()), ("a", b"%")], 0)
    )
    assert not isinstance(made, Misfit)
    assert dict(made)["ce-subject"] == "%C3%A9%20%22%25"
    assert dict(made)["a"] == "%"
