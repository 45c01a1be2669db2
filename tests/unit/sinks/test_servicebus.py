"""What fits into a message of Service Bus, its ids, and settings; its server is in tests/contract."""

from typing import Any

import pytest
from pydantic import ValidationError

from walrelay.model import REPLAYED, Message
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.hosting import Misfit
from walrelay.sinks.servicebus.messages import DistinctIds, EntityMessage, FittingMessages, entity_fault
from walrelay.sinks.servicebus.plugin import Lane, plugin
from walrelay.sinks.servicebus.settings import ServicebusSettings

ENDPOINT = "Endpoint=sb://acme.servicebus.windows.net/"
STRING = f"{ENDPOINT};SharedAccessKeyName=relay;SharedAccessKey=c2VjcmV0"


def message(*headers: tuple[str, bytes | None], key: bytes | None = b"a", topic: str = "orders") -> Message:
    return Message(topic, key, b"{}", [("id", b"1"), ("position", b"0/1:0"), *headers], 0)


def fitting(made: Message, entity: str = "{topic}", **options: Any) -> EntityMessage | Misfit:
    options = {"session_ids": True, "key_header": None, "content_type": None, **options}
    return FittingMessages(AddressTemplate(entity), **options)(made)


def fits(made: Message, **options: Any) -> EntityMessage:
    found = fitting(made, **options)
    assert isinstance(found, EntityMessage), found
    return found


@pytest.mark.parametrize(
    ("made", "entity", "reason", "error"),
    [
        (message(), "{header.to}", "the address has {header.to}, and the message has none", "unroutable"),
        (message(topic="a:b"), "{topic}", "'a:b' is no name for a queue or topic: it has", "invalid_topic"),
        (message(topic="$cbs"), "{topic}", "'$cbs' is no name for a queue or topic", "invalid_topic"),
        (message(topic="a" * 261), "{topic}", "'aaaa", "invalid_topic"),
        (message(key=b"k" * 129), "{topic}", "its key b'kkkkkkkkkkkk", "serialization"),
        (message(key=b"\xff"), "{topic}", "its key b'\\xff' is no session id: that is UTF-8", "serialization"),
        (message(("", b"1")), "{topic}", "a header has no name", "serialization"),
        (message(("\udcff", b"1")), "{topic}", "the name of the header '\\udcff' is not UTF-8", "serialization"),
        (message(("a", b"1"), ("a", b"1")), "{topic}", "the header 'a' is there twice", "serialization"),
        (message(("a", b"\xff")), "{topic}", "the header 'a' is not UTF-8, which the client", "serialization"),
        (message(("a", b"x" * 33_000)), "{topic}", "the header 'a' has 33,000 bytes", "serialization"),
        (
            message(*((f"h{number}", b"x" * 20_000) for number in range(4))),
            "{topic}",
            "key and headers have 80,",
            "serialization",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_with_its_reason(made: Message, entity: str, reason: str, error: str) -> None:
    found = fitting(made, entity)
    assert isinstance(found, Misfit), found
    assert found.reason.startswith(reason)
    assert found.error == error


def test_a_key_that_is_no_session_id_fits_where_there_are_no_sessions() -> None:
    assert fits(message(key=b"\xff" * 200), session_ids=False).session_id is None


def test_an_empty_key_is_a_session_and_none_is_not() -> None:
    assert fits(message(key=b"")).session_id == ""
    assert fits(message(key=None)).session_id is None


def test_headers_that_service_bus_has_properties_for_are_those_too() -> None:
    found = fits(message(("Content-Type", b"text/plain"), ("type", b"T, Assembly"), ("subject", b"T"), ("n", None)))
    assert found.known == {"message_id": "1", "content_type": "text/plain", "subject": "T"}
    assert found.properties["n"] is None
    assert found.properties["type"] == "T, Assembly"
    assert fits(message(("type", b"T"))).known["subject"] == "T"
    assert "subject" not in fits(message(("type", b"T" * 256))).known, "it is a header only"


@pytest.mark.parametrize(("id_", "alone"), [("0190a5c2-7c3e-7d3e-9f65-0c0ffee0ffee", True), ("1", False)])
def test_ids_are_the_records_but_for_what_would_be_dropped_as_a_repetition(id_: str, alone: bool) -> None:
    def of_a_run() -> list[str]:
        with_id = DistinctIds()
        found = []
        for made in (message(), message(("n", b"2")), message(("n", b"2")), message(topic="other"), message()):
            made = made._replace(headers=[("id", id_.encode()), *made.headers[1:]])
            found.append(with_id(fits(made)).known["message_id"])
        return found

    first, second, third, elsewhere, last = of_a_run()
    assert (first == id_, elsewhere == id_) == (alone, alone)
    assert len({first, second, third, last}) == 4
    assert all(each.startswith(id_) for each in (first, second, third, last))
    assert of_a_run() == [first, second, third, elsewhere, last], "the next run repeats what it repeats by the same ids"
    replayed = [DistinctIds()(fits(message(REPLAYED))) for _ in range(2)]
    assert replayed[0] != replayed[1]


def test_the_same_id_from_another_table_is_another_message() -> None:
    first, other = message(), message()._replace(headers=[("id", b"1"), ("position", b"0/2:0")])
    found = {DistinctIds()(fits(made)).known["message_id"] for made in (first, other)}
    assert len(found) == 2


def test_a_long_id_is_cut_and_is_still_its_own() -> None:
    made = [message()._replace(headers=[("id", b"i" * 129 + last)]) for last in (b"1", b"2")]
    first, second = (DistinctIds()(fits(each)).known["message_id"] for each in made)
    assert len(first) == len(second) == 128
    assert first != second


def test_an_entity_is_a_lane_and_of_a_partitioned_one_a_session() -> None:
    plain = Lane(settings(entity="x-{topic}"))
    assert plain(message()) == plain(message(key=b"b")) != plain(message(topic="other"))
    partitioned = Lane(settings(partitioned=True))
    assert partitioned(message()) == partitioned(message()) != partitioned(message(key=b"b"))
    assert Lane(settings(entity="{header.to}"))(message()) is None


@pytest.mark.parametrize(
    ("name", "fault"), [("orders/eu-1.a_b", False), ("A", False), ("", True), ("a ", True), ("-a", True), ("ä", True)]
)
def test_names_of_entities(name: str, fault: bool) -> None:
    assert bool(entity_fault(name)) is fault
    assert plugin.topic_fault is entity_fault


def settings(**given: Any) -> ServicebusSettings:
    return ServicebusSettings.model_validate({"connection_string": STRING, **given})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"connection_string": None}, "set either connection_string or namespace"),
        ({"namespace": "acme.servicebus.windows.net"}, "set either connection_string or namespace"),
        ({"connection_string": "acme"}, "it has no Endpoint=sb://NAME.servicebus.windows.net/"),
        ({"connection_string": ENDPOINT}, "it has neither SharedAccessKeyName and SharedAccessKey"),
        ({"connection_string": f"{STRING};EntityPath=orders"}, "it has an EntityPath"),
        ({"client_id": "a"}, "tenant_id, client_id and client_secret go with namespace"),
        ({"connection_string": None, "namespace": "sb://acme"}, "a namespace is the name of a host"),
        (
            {"connection_string": None, "namespace": "acme", "client_secret": "s"},
            "client_secret needs tenant_id and client_id",
        ),
        ({"connection_string": None, "namespace": "acme", "tenant_id": "t"}, "tenant_id needs client_secret"),
        ({"entity": "{nonsense}"}, "is no template of an address"),
    ],
)
def test_settings_that_contradict_each_other(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told.replace("{", r"\{")) as caught:
        settings(**given)
    assert "c2VjcmV0" not in str(caught.value)


def test_messages_name_the_host_and_no_secret() -> None:
    assert settings().place == "acme.servicebus.windows.net"
    assert settings().encrypted
    assert not settings(connection_string=f"{STRING};UseDevelopmentEmulator=true").encrypted
    assert settings(connection_string=None, namespace="acme").place == "acme"
    assert "c2VjcmV0" not in repr(settings())
