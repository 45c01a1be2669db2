"""What the answers of Service Bus mean, as a peer of the tests' own gives them; batches, ids and credentials."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from tests.brokers.servicebus import ServicebusCase
from tests.servers.choose import found
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.proxy import Proxy
from tests.servers.servicebus import ServicebusPeer, python_with_proton
from tests.servers.waiting import wait_until
from tests.servers.webhook import Endpoint, answering, response
from walrelay.errors import Fatal
from walrelay.model import REPLAYED, Message
from walrelay.sinks.servicebus import connection
from walrelay.sinks.servicebus.plugin import plugin
from walrelay.sinks.servicebus.settings import ServicebusSettings
from walrelay.testing import complains, failure, message, numbers, publish, receipts, refusal, settle

pytestmark = pytest.mark.slow


@pytest.fixture
def case(stoppable_servicebus: ServicebusPeer) -> Iterator[ServicebusCase]:
    with closing(ServicebusCase(stoppable_servicebus)) as made:
        yield made


def with_headers(case: ServicebusCase, number: int, *more: tuple[str, bytes | None], key: str = "a") -> Message:
    made: Any = message(case, number, key=key)
    return made._replace(headers=[*made.headers, *more])  # type: ignore[no-any-return]


def test_what_waits_behind_a_batch_goes_as_the_next_one(case: ServicebusCase) -> None:
    with closing(case.open()) as sink:
        settle(sink, 250, publish(sink, case, range(250)))
    stored = case.stored()
    assert [each.body for each in stored] == [b"%d" % number for number in range(250)]
    assert [each.transfer - stored[0].transfer for each in stored] == [0] + [1] * 100 + [2] * 100 + [3] * 49
    assert {each.connection for each in stored} == {stored[0].connection}


def test_a_batch_that_does_not_fit_goes_in_parts(case: ServicebusCase) -> None:
    """Properties of their own are larger on the way than they are counted."""
    case.server.rule("*", max_message_size=100_000)
    with closing(case.open()) as sink:
        settle(sink, 60, publish(sink, case, range(60), size=5_000))
    assert numbers(case.arrived()) == [*range(60)]
    assert len({each.transfer for each in case.stored()}) > 3


def test_properties_say_what_consumers_look_for(case: ServicebusCase) -> None:
    with closing(case.open(content_type="application/json")) as sink:
        assert sink.publish(with_headers(case, 7, ("type", b"OrderPlaced"), ("correlation_id", b"c-1")), 0)
        named = with_headers(case, 8, ("type", b"x"), ("subject", b"Short"), ("content-type", b"text/plain"))
        assert sink.publish(named, 0)
        settle(sink, 2)
    first, second = case.stored()
    assert (first.message_id or "").startswith("7-")
    assert first[1:5] == ("a", "OrderPlaced", "c-1", "application/json")
    assert second[1:5] == ("a", "Short", None, "text/plain")
    assert first.properties == [
        ("id", b"7"), ("position", b"0/1:0"), ("type", b"OrderPlaced"), ("correlation_id", b"c-1"),
    ]  # fmt: skip


def test_the_key_is_the_session_unless_it_is_not_to_be(case: ServicebusCase) -> None:
    without = message(case, 1)._replace(key=None)
    with closing(case.open(session_ids=False, key_header="key")) as sink:
        assert sink.publish(message(case, 0), 0)
        assert sink.publish(without, 0)
        settle(sink, 2)
    first, second = case.stored()
    assert (first.session_id, dict(first.properties)["key"]) == (None, b"a")
    assert (second.session_id, second.properties) == (None, without.headers)


def test_an_entity_that_detects_duplicates_keeps_all_that_a_record_has_for_it(case: ServicebusCase) -> None:
    """A second message of the record, and a replay, are no repetitions; what the next run repeats is one."""
    case.server.rule(case.topic, detects_duplicates=True)
    first, second = message(case, 0), message(case, 0)._replace(value=b"1")
    replayed = with_headers(case, 0, REPLAYED)._replace(value=b"3")
    for _ in range(2):
        with closing(case.open()) as sink:
            for each in (first, second, second):
                assert sink.publish(each, 0)
            settle(sink, 3)
    with closing(case.open()) as sink:
        assert sink.publish(replayed, 0)
        settle(sink, 1)
    stored = case.stored()
    assert [each.body for each in stored] == [b"0", b"1", b"1", b"3"]
    assert len({each.message_id for each in stored}) == 4
    assert (stored[0].message_id or "").startswith("0-")


def test_an_entity_that_detects_duplicates_keeps_what_another_table_has_by_the_same_id(case: ServicebusCase) -> None:
    case.server.rule(case.topic, detects_duplicates=True)
    with closing(case.open()) as sink:
        for position in (b"0/1:0", b"0/2:0"):
            assert sink.publish(message(case, 0)._replace(headers=[("id", b"1"), ("position", position)]), 0)
        settle(sink, 2)
    assert len(case.stored()) == 2


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (
            {"attach": ["amqp:not-found", "The messaging entity could not be found."]},
            ("unknown_topic", "topic", "there is no queue or topic {}: The messaging entity could not be found."),
        ),
        (
            {"attach": ["amqp:unauthorized-access", "Unauthorized access. 'Send' claim(s) are required."]},
            ("not_authorized", "topic", "sending to {} is not allowed: Unauthorized access. 'Send' claim(s)"),
        ),
        (
            {"messages": [{"what": "reject", "condition": "amqp:not-allowed", "text": "No."}]},
            ("refused", "message", "{} refused it: No."),
        ),
        (
            {"messages": [{"what": "reject", "condition": "com.microsoft:argument-error", "text": "No."}]},
            ("refused", "message", "{} refused it: No."),
        ),
        (
            {"messages": [{"what": "reject", "condition": "amqp:link:message-size-exceeded", "text": "Too big."}]},
            ("too_large", "message", "{} takes no message of its size: Too big."),
        ),
        (
            {"messages": [{"what": "detach", "condition": "amqp:link:message-size-exceeded", "text": "Too big."}]},
            ("too_large", "message", "{} takes no message of its size: Too big."),
        ),
        (
            {"max_message_size": 10},
            ("too_large", "message", "value and properties have 38 bytes at least, and {} takes"),
        ),
    ],
    ids=["not found", "unauthorized", "not allowed", "argument", "too large", "too large for the link", "known size"],
)
def test_a_refusal_says_which_and_why(case: ServicebusCase, rule: dict[str, Any], told: tuple[str, str, str]) -> None:
    error, scope, reason = told
    case.server.rule(case.topic, **rule)
    other = f"{case.topic}-other"
    with closing(case.open()) as sink:
        lost = message(case, 0)
        assert sink.publish(lost, 0)
        refused = refusal(sink)
        assert (refused.message, refused.error, refused.scope, refused.ends) == (lost, error, scope, False)
        assert refused.reason.startswith(reason.format(repr(case.topic)))
        assert sink.publish(message(case, 1)._replace(topic=other), 0), "another entity has no trouble"
        settle(sink, 1)
    assert case.arrived() == []
    assert len(case.server.stored(other)) == 1


def test_the_culprit_of_a_batch_is_found_and_nothing_overtakes_it(case: ServicebusCase) -> None:
    refuse = {"id": "5", "what": "reject", "condition": "amqp:not-allowed", "text": "No."}
    case.server.rule(case.topic, messages=[refuse])
    with closing(case.open()) as sink:
        for number in range(10):
            assert sink.publish(message(case, number), 0)
        assert "messages were refused together, and are sent one by one to find the one" in failure(sink)
    assert numbers(case.arrived()) == [0], "the batch was refused as a whole"
    with closing(case.open()) as careful:
        publish(careful, case, range(1, 5))
        lost = message(case, 5)
        wait_until(lambda: receipts(careful, 0) is not None and careful.publish(lost, 0), 30, "room")
        assert refusal(careful).message is lost
        settle(careful, 4, publish(careful, case, range(6, 10)))
    assert numbers(case.arrived()) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "rule",
    [
        {"messages": [{"what": "reject", "condition": "amqp:resource-limit-exceeded", "text": "It is full."}]},
        {"messages": [{"what": "reject", "condition": "com.microsoft:entity-disabled", "text": "It is full."}]},
        {"messages": [{"what": "reject", "condition": "com.microsoft:server-busy", "text": "It is full."}]},
        {"attach": ["com.microsoft:entity-disabled", "It is full."]},
        {"attach": ["com.microsoft:server-busy", "It is full."]},
    ],
    ids=["full", "disabled", "busy", "disabled before", "busy before"],
)
def test_an_entity_that_takes_nothing_is_waited_for(case: ServicebusCase, rule: dict[str, Any]) -> None:
    other = f"{case.topic}-other"
    case.server.rule(case.topic, **rule)
    with closing(case.open()) as sink:
        for number in range(5):
            assert sink.publish(message(case, number), 0)
        wait_until(lambda: receipts(sink, 0.05).total() or sink.trouble(), 30, "it to say what is wrong")
        assert sink.trouble().startswith(f"{case.topic!r} takes nothing for now: It is full.")
        assert sink.publish(message(case, 9)._replace(topic=other), 0)
        settle(sink, 1)
        case.server.rule(case.topic)
        settle(sink, 5)
        assert sink.trouble() == ""
    assert numbers(case.arrived()) == [*range(5)]


@pytest.mark.parametrize(
    "cruelty",
    [
        {"what": "hang"},
        {"what": "hang", "stored": True},
        {"what": "release"},
        {"what": "reject", "condition": "amqp:not-allowed", "text": "No.", "info": False},
        {"what": "reject", "condition": "amqp:internal-error", "text": "Oh."},
        {"what": "detach", "condition": "amqp:link:detach-forced", "text": "Away."},
        {"what": "drop"},
        {"what": "drop", "stored": True},
    ],
    ids=[
        "no answer",
        "no answer, stored",
        "released",
        "two elements",
        "internal",
        "detached",
        "dropped",
        "dropped, stored",
    ],
)
def test_what_is_not_known_to_be_durable_is_sent_again_in_order(case: ServicebusCase, cruelty: dict[str, Any]) -> None:
    """A rejection of two elements makes the client's callback fail, and it would wait for ever."""
    case.server.rule(case.topic, messages=[{"id": "3", **cruelty}])
    with closing(case.open(request_timeout=1)) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        for number in range(1, 6):
            assert sink.publish(message(case, number), 0)
        complains(sink)
    case.server.rule(case.topic)
    with closing(case.open()) as sink:
        settle(sink, 4, publish(sink, case, range(2, 6)))
    arrived = numbers(case.arrived())
    assert [*dict.fromkeys(arrived)] == [*range(6)]
    assert arrived[-4:] == [2, 3, 4, 5], "something came late"


def test_a_link_that_is_detached_between_two_batches_ends_the_connection_only(case: ServicebusCase) -> None:
    case.server.rule(case.topic, detaches_when_accepted=True)
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        assert sink.publish(message(case, 1), 0)
        complains(sink, "force detached")
        settle(sink, 1)
    assert numbers(case.arrived()) == [0, 1]


def test_a_sender_that_was_idle_for_long_is_not_used_again(
    case: ServicebusCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Service Bus would have ended it."""
    with closing(case.open()) as sink:
        for number in range(2):
            settle(sink, 1, publish(sink, case, range(number, number + 1)))
        monkeypatch.setattr(connection, "_IDLE", 0)
        settle(sink, 1, publish(sink, case, range(2, 3)))
    first, second, third = case.stored()
    assert first.connection == second.connection != third.connection


def test_a_link_that_is_never_attached_is_given_up(case: ServicebusCase) -> None:
    case.server.rule(case.topic, never_attaches=True)
    with closing(case.open(request_timeout=1)) as sink:
        assert sink.publish(message(case, 0), 0)
        complains(sink, f"{case.topic!r} has not answered in time")


@pytest.mark.parametrize("how", ["stall", "half_open"])
def test_a_connection_on_which_nothing_moves_is_given_up(case: ServicebusCase, how: str) -> None:
    with Proxy((LOOPBACK, case.server.port)) as proxy:
        away = case.server.connection_string(port=proxy.port)
        with closing(case.open(connection_string=away, request_timeout=1)) as sink:
            settle(sink, 1, publish(sink, case, range(1)))
            getattr(proxy, how)()
            assert sink.publish(message(case, 1), 0)
            complains(sink)


def test_a_broker_that_is_away_is_waited_for_and_said(case: ServicebusCase) -> None:
    with closing(case.open(connection_string=case.server.connection_string(port=free_port()))) as sink:
        assert sink.publish(message(case, 0), 0)
        complains(sink, "Connect call failed")


def test_a_session_goes_beside_others_into_a_partitioned_entity(case: ServicebusCase) -> None:
    with closing(case.open(partitioned=True, max_connections=3)) as sink:
        for number in range(600):
            assert sink.publish(message(case, number, key="abcdef"[number % 6]), 0)
        settle(sink, 600)
    stored = case.stored()
    assert len({each.connection for each in stored}) == 3
    sessions: dict[int, set[str | None]] = {}
    for each in stored:
        sessions.setdefault(each.transfer, set()).add(each.session_id)
    assert {len(each) for each in sessions.values()} == {1}, "a batch has one session"
    assert max(sum(each.transfer == transfer for each in stored) for transfer in sessions) > 50, "there were no batches"
    for start, key in enumerate("abcdef"):
        assert numbers(case.arrived(), key) == [*range(start, 600, 6)]


def test_an_entity_that_asks_for_sessions_refuses_what_has_none(case: ServicebusCase) -> None:
    case.server.rule(case.topic, requires_sessions=True)
    with closing(case.open()) as sink:
        lost = message(case, 0)._replace(key=None)
        assert sink.publish(lost, 0)
        told = refusal(sink)
        assert (told.error, told.scope) == ("refused", "message")
        assert "The SessionId was not set" in told.reason


def test_a_key_that_is_signed_wrongly_is_waited_for_and_said(case: ServicebusCase) -> None:
    with closing(case.open(connection_string=case.server.connection_string(key="wrong"))) as sink:
        assert sink.publish(message(case, 0), 0)
        complains(sink, "InvalidSignature: The token has an invalid signature")
    assert case.arrived() == []


def test_a_token_that_nobody_answers_is_given_up(case: ServicebusCase) -> None:
    case.server.rule("$cbs", hangs=True)
    with closing(case.open(request_timeout=1)) as sink:
        assert sink.publish(message(case, 0), 0)
        complains(sink)


@pytest.fixture(scope="module")
def encrypted() -> Iterator[ServicebusPeer]:
    """At the port that a client with TLS goes to, on an address that nobody else has."""
    number = free_port()
    with ServicebusPeer(found(python_with_proton), f"127.77.{number // 250 % 250}.{number % 250 + 1}") as peer:
        yield peer


def test_over_tls_the_server_shows_a_certificate(encrypted: ServicebusPeer, tmp_path: Any) -> None:
    case = ServicebusCase(encrypted)
    text = f"Endpoint=sb://{encrypted.address}/;SharedAccessKeyName=Root;SharedAccessKey=secret"
    with closing(case.open(connection_string=text, ca_file=str(encrypted.authority.certificate))) as sink:
        settle(sink, 3, publish(sink, case, range(3)))
    assert numbers(case.arrived()) == [0, 1, 2]
    with closing(case.open(connection_string=text)) as distrustful:
        assert distrustful.publish(message(case, 0), 0)
        complains(distrustful, "certificate verify failed")
    with closing(case.open(connection_string=text, ca_file=str(tmp_path / "none.crt"))) as wrong:
        assert "the certificates for" in failure(wrong, Fatal)


def test_a_managed_identity_signs_in(encrypted: ServicebusPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Azure's App Service: an address and a secret in the environment, where tokens are to be had."""
    case = ServicebusCase(encrypted)
    encrypted.rule("$cbs", token="the token")
    body = '{"access_token": "the token", "expires_on": "4000000000", "resource": "x", "token_type": "Bearer"}'
    with Endpoint(answering(response("200 OK", "Content-Type: application/json", body=body))) as identity:
        monkeypatch.setenv("IDENTITY_ENDPOINT", identity.url)
        monkeypatch.setenv("IDENTITY_HEADER", "of the machine")
        trusting: dict[str, Any] = {"namespace": encrypted.address, "ca_file": str(encrypted.authority.certificate)}
        with closing(case.open(**trusting, client_id="mine")) as sink:
            settle(sink, 3, publish(sink, case, range(3)))
        (request,) = identity.requests
    assert request.header("x-identity-header") == "of the machine"
    assert "servicebus.azure.net" in request.path
    assert "client_id=mine" in request.path
    assert ("jwt", "the token") in encrypted.tokens()
    assert numbers(case.arrived()) == [0, 1, 2]
    encrypted.rule("$cbs")


def test_credentials_that_cannot_be_had_are_waited_for_and_said(
    encrypted: ServicebusPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = ServicebusCase(encrypted)
    with Endpoint(answering(response("400 Bad Request", body="{}"))) as identity:
        monkeypatch.setenv("IDENTITY_ENDPOINT", identity.url)
        monkeypatch.setenv("IDENTITY_HEADER", "of the machine")
        monkeypatch.setenv("PATH", "/nonexistent")
        trusting: dict[str, Any] = {"namespace": encrypted.address, "ca_file": str(encrypted.authority.certificate)}
        with closing(case.open(**trusting)) as sink:
            assert sink.publish(message(case, 0), 0)
            complains(sink, "failed to retrieve a token")


def test_the_doctor_says_what_is_there_and_what_is_missing(case: ServicebusCase) -> None:
    case.server.rule("nowhere", attach=["amqp:not-found", "Could not be found."])
    case.server.rule("forbidden", attach=["amqp:unauthorized-access", "Claims are required."])
    case.server.rule("off", attach=["com.microsoft:entity-disabled", "It is disabled."])
    settings = ServicebusSettings.model_validate({"connection_string": case.server.connection_string()})
    findings = [*plugin.examine(settings, [case.topic, "nowhere", "forbidden", "off", "by-*"])]
    assert [(each.verdict, each.detail) for each in findings] == [
        ("ok", f"{LOOPBACK} lets us send to {case.topic!r}, messages of up to 262,144 bytes"),
        ("problem", "there is no queue or topic 'nowhere': Could not be found."),
        (
            "problem",
            "sending to 'forbidden' is not allowed: Claims are required.",
        ),
        ("warning", "'off' takes nothing for now: It is disabled."),
        ("warning", "the connection string is of the emulator: events go unencrypted"),
    ]
    assert all(each.fix for each in findings if each.verdict == "problem")
    assert case.stored() == []


def test_the_doctor_says_that_nobody_answers_or_lets_us_in(case: ServicebusCase) -> None:
    for text, why in (
        (case.server.connection_string(port=free_port()), "Connect call failed"),
        (case.server.connection_string(key="wrong"), "InvalidSignature"),
    ):
        settings = ServicebusSettings.model_validate({"connection_string": text, "session_ids": False})
        problem, *warnings = plugin.examine(settings, [case.topic])
        assert problem.verdict == "problem"
        assert problem.detail.startswith(f"{LOOPBACK} cannot be reached, or does not let us in: ")
        assert why in problem.detail
        assert [each.verdict for each in warnings] == ["warning", "warning"]


def test_the_doctor_reaches_the_namespace_where_rows_name_the_entity(case: ServicebusCase) -> None:
    def examined(text: str) -> Sequence[tuple[str, str]]:
        given = {"connection_string": text, "entity": "{header.tenant}"}
        found = plugin.examine(ServicebusSettings.model_validate(given), [case.topic])
        return [(each.verdict, each.detail) for each in found][:2]

    unknown = ("warning", "sink.entity takes its name from rows, so that no queue or topic is known beforehand")
    right = case.server.connection_string()
    for rule in ({}, {"attach": ["amqp:not-found", "Could not be found."]}):
        case.server.rule("walrelay-doctor", **rule)
        assert examined(right) == [unknown, ("ok", f"{LOOPBACK} answers, and accepts the credentials")]
    case.server.rule("walrelay-doctor", attach=["amqp:unauthorized-access", "Claims are required."])
    assert examined(right)[1][0] == "warning"
    for wrong in (case.server.connection_string(port=free_port()), case.server.connection_string(key="wrong")):
        (_, (verdict, detail)) = examined(wrong)
        assert verdict == "problem"
        assert detail.startswith(f"{LOOPBACK} cannot be reached, or does not let us in: ")
    assert case.stored() == []
