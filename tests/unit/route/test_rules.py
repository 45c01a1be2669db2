"""Routing rules: which record each matches, and the messages that it makes."""

import json
from typing import Any

import pytest

from walrelay.config.routes import RuleSettings
from walrelay.errors import Undecodable, Unroutable
from walrelay.json_text import DEEPEST
from walrelay.lsn import LSN
from walrelay.model import Message, OutboxRecord, Undecoded
from walrelay.route import Router
from walrelay.route.rules import RuleRouter, Rules

PAYLOAD = '{"order": {"id": "o-1", "total": 12.50, "lines": [{"sku": "a"}, {"sku": "b"}]}, "vip": true, "note": null}'
RECORD = OutboxRecord(
    LSN.parse("16/B374D848"),
    *(2, 1_789_000_123_999, "7", "OrderLine", "42", "placed", PAYLOAD.encode()),
    *(b'{"region": "eu-west", "n": 5, "gone": null}', None, "acme", None),
    columns={"tags": "{wallet_id=42,vip}", "metadata": '{"user": {"id": 9}}', "active": "t", "nothing": None},
)


def router(*rules: dict[str, Any], **settings: Any) -> RuleRouter:
    """Rules as in the settings file; names are given to those that have none."""
    named = [{"name": f"rule-{number}", **rule} for number, rule in enumerate(rules)]
    return RuleRouter([RuleSettings.model_validate(rule).rule for rule in named], "event.{aggregate_type}", **settings)


def matches(when: dict[str, Any], record: OutboxRecord = RECORD) -> bool:
    return router({"when": when}, {"drop": True}).decide(record)[1] is None


def message(rule: dict[str, Any], record: OutboxRecord = RECORD) -> Message:
    (only,) = router(rule).route(record)
    return only


def refused(rule: dict[str, Any], record: OutboxRecord = RECORD) -> str:
    with pytest.raises(Unroutable) as caught:
        router(rule).route(record)
    assert "`routes`" in caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"type": "placed"},
        {"type": ["paid", "placed"]},
        {"type": {"one_of": ["placed"]}},
        {"type": {"prefix": "pla"}},
        {"type": {"glob": "p*d"}},
        {"type": {"glob": "[op]lace?"}},
        {"type": {"regex": "ac"}},
        {"type": {"regex": "^placed$"}},
        {"type": {"prefix": "pl", "glob": "*ed"}},
        {"type": {"exists": True}},
        {"topic": {"exists": False}},
        {"tenant_id": "acme", "id": 7},
        {"header.region": {"prefix": "eu-"}},
        {"header.n": 5},
        {"header.gone": {"exists": False}},
        {"header.none": {"exists": False}},
        {"payload": {"exists": True}},
        {"payload": {"regex": '"vip"'}},
        {"payload.order": {"exists": True}},
        {"payload.order.id": "o-1"},
        {"payload.order.total": "12.50"},
        {"payload.order.lines.1.sku": "b"},
        {'payload."order"."id"': "o-1"},
        {"payload.vip": True},
        {"payload.note": {"exists": False}},
        {"payload.order.id.deeper": {"exists": False}},
        {"payload.order.lines.2": {"exists": False}},
        {"column.metadata.user.id": 9},
        {"column.active": True},
        {"column.nothing": {"exists": False}},
        {"column.tags": {"tags": {"required": ["wallet_id"]}}},
        {"column.tags": {"tags": {"required": ["wallet_id=42", "vip"]}}},
        {"column.tags": {"tags": {"any_of": ["payment_id", "vip"]}}},
        {"column.tags": {"tags": {"exactly": ["wallet_id", "vip"]}}},
        {"column.metadata.user": {"tags": {"required": ["id=9"]}}},
    ],
    ids=str,
)
def test_a_rule_matches_a_record_that_fulfils_all_its_conditions(when: dict[str, Any]) -> None:
    assert matches(when)


@pytest.mark.parametrize(
    "when",
    [
        {"type": "Placed"},
        {"type": "place"},
        {"type": {"prefix": "laced"}},
        {"type": {"glob": "place"}},
        {"type": {"glob": "P*"}},
        {"type": {"regex": "^laced"}},
        {"type": {"prefix": "pl", "glob": "x*"}},
        {"type": {"exists": False}},
        {"type": "placed", "tenant_id": "other"},
        {"topic": {"glob": "*"}},
        {"header.gone": {"regex": ""}},
        {"payload.order.total": "12.5"},
        {"payload.order": "o-1"},
        {"payload.order": {"glob": "*"}},
        {"payload.note": "null"},
        {"payload.vip": False},
        {"column.nothing": ""},
        {"column.other": {"exists": True}},
        {"column.active": "false"},
        {"column.tags": {"tags": {"required": ["wallet_id", "payment_id"]}}},
        {"column.tags": {"tags": {"required": ["wallet_id=4"]}}},
        {"column.tags": {"tags": {"any_of": ["wallet"]}}},
        {"column.tags": {"tags": {"exactly": ["wallet_id"]}}},
        {"column.nothing": {"tags": {"any_of": ["vip"]}}},
    ],
    ids=str,
)
def test_a_rule_does_not_match_a_record_that_fails_one_of_them(when: dict[str, Any]) -> None:
    assert not matches(when)


@pytest.mark.parametrize("payload", [None, b"", b"plain", b"{", b"[1", b"1 2", b'{"a": NaN}', b"\xff"])
def test_in_a_payload_that_is_not_json_no_path_has_a_value(payload: bytes | None) -> None:
    assert matches({"payload.order": {"exists": False}}, RECORD._replace(payload=payload))


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("{a,b}", ["a", "b"]),
        ('{"a b","c,d"}', ["a b", "c,d"]),
        (r'{"say \"a\"","back\\slash"}', ['say "a"', "back\\slash"]),
        ("{NULL,a}", ["a"]),
        ("{}", []),
        ('["a", "b", 3]', ["a", "b", "3"]),
        ('{"a": "x", "b": 3, "c": true}', ["a=x", "b=3", "c=true"]),
        ("plain", []),
        ("{{a},{b}}", ["a", "b"]),
    ],
)
def test_tags_are_in_an_array_or_in_json(tags: str, found: list[str]) -> None:
    record = RECORD._replace(columns={"tags": tags})
    assert matches({"column.tags": {"tags": {"exactly": found}}}, record)
    assert not matches({"column.tags": {"tags": {"any_of": ["strange"]}}}, record)


def test_a_column_with_a_role_is_known_by_its_name_too() -> None:
    found = router({"when": {"column.kind": "placed"}, "topic": "{column.kind}"}, roles={"kind": "type"}).route(RECORD)
    assert found[0].topic == "placed"


def test_the_first_rule_that_matches_counts() -> None:
    rules = ({"when": {"type": "x"}, "topic": "no"}, {"when": {"type": "placed"}, "topic": "yes"}, {"topic": "late"})
    assert [each.topic for each in router(*rules).route(RECORD)] == ["yes"]


def test_a_rule_that_continues_lets_later_ones_add_messages() -> None:
    rules = ({"topic": "all", "continue": True}, {"when": {"type": "x"}, "topic": "no"}, {"topic": "rest"})
    assert [each.topic for each in router(*rules).route(RECORD)] == ["all", "rest"]
    assert [each.topic for each in router(*rules[:2]).route(RECORD)] == ["all"]
    messages, dropped = router(rules[0], {"drop": True}).decide(RECORD)
    assert (len(messages), dropped) == (1, None)


def test_a_record_that_a_rule_drops_becomes_no_message() -> None:
    assert router({"name": "noise", "when": {"type": "placed"}, "drop": True}).decide(RECORD) == ((), "noise")


def test_a_record_that_no_rule_matches_is_refused_and_the_error_says_why_each_did_not() -> None:
    with pytest.raises(Unroutable) as caught:
        router({"name": "a", "when": {"type": ["x", "y"]}}, {"name": "b", "when": {"payload.order": "z"}}).route(RECORD)
    assert str(caught.value) == (
        "no rule matches record 7 at 16/B374D848:2 (a: type is 'placed', not 'x' or 'y';"
        " b: payload.order is an object, not 'z')"
    )
    assert "walrelay route test" in caught.value.hint
    assert "dead letter" in caught.value.hint


def test_the_refusal_of_a_record_tells_no_value_of_its_payload_headers_or_columns() -> None:
    """Logs and dead letters are read by more people than the events are."""
    secret = "alice@example.org"
    record = RECORD._replace(payload=f'{{"email": "{secret}"}}'.encode(), headers=f'{{"mail": "{secret}"}}'.encode())
    conditions = ({"payload.email": "b"}, {"header.mail": {"prefix": "b"}}, {"payload": {"glob": "b*"}})
    rules = [{"name": f"r{number}", "when": when} for number, when in enumerate(conditions)]
    with pytest.raises(Unroutable) as caught:
        router(*rules).route(record)
    assert secret not in f"{caught.value} {caught.value.hint}"
    assert "r0: payload.email is not 'b'; r1: header.mail is not with the prefix 'b'" in str(caught.value)
    assert secret in "".join(each.why_not for each in router(*rules).verdicts(record))


def test_a_rule_without_anything_to_do_makes_the_message_of_today() -> None:
    for record in (RECORD, RECORD._replace(topic="own"), RECORD._replace(headers=None, type=None, aggregate_id=None)):
        assert router({}).route(record) == Router("event.{aggregate_type}").route(record)


def test_what_is_no_record_is_not_routed() -> None:
    with pytest.raises(Undecodable, match="because"):
        router({}).route(Undecoded(LSN(1), 0, 0, "p", b"", "because", ""))


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("plain", "plain"),
        ("{aggregate_type|kebab}", "order-line"),
        ("a.{type}.{tenant_id}", "a.placed.acme"),
        ("{header.region}", "eu-west"),
        ("{payload.order.id}", "o-1"),
        ('{payload."order".id}', "o-1"),
        ("{payload.order.lines.0.sku}", "a"),
        ("{column.metadata.user.id}", "9"),
        ("{payload.vip}", "true"),
        ("{payload.none|default:no}", "no"),
        ("{topic|default:a b}", "a b"),
        ("{payload.order|default:compound}", "compound"),
        ("{aggregate_type|lower}", "orderline"),
        ("{header.region|regex:^[a-z]+}", "eu"),
        ("{header.region|regex:-(.*)}", "west"),
        ('{header.region|regex:"(eu|us)-"|default:none}', "eu"),
        ("{type|regex:xyz|default:none}", "none"),
        ('{type|default:"a""b"}', "placed"),
        ('{topic|default:"a""}b"}', 'a"}b'),
        ("{{literal}}", "{literal}"),
    ],
)
def test_a_template_is_filled_in(template: str, text: str) -> None:
    assert message({"key": template, "topic": "t"}).key == text.encode()


@pytest.mark.parametrize(
    ("text", "kebab"),
    [("OrderLine", "order-line"), ("HTTPServer", "http-server"), ("order_line", "order-line"), ("A B--c", "a-b-c")],
)
def test_kebab(text: str, kebab: str) -> None:
    assert message({"topic": "{type|kebab}"}, RECORD._replace(type=text)).topic == kebab


@pytest.mark.parametrize(
    "text",
    [
        "Acme.Llm.Domain.Events.TenantCreated, Acme.Llm, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null",
        "Acme.Envelope+TenantCreated",
        "com.acme.events.Tenant$TenantCreated",
        "urn:message:Acme.Llm.Domain.Events:TenantCreated",
        "Acme.TenantCreated`1[[System.Int32, mscorlib]]",
        "TenantCreated",
    ],
)
def test_short_name(text: str) -> None:
    assert message({"topic": "{type|short_name}"}, RECORD._replace(type=text)).topic == "TenantCreated"


def test_a_topic_or_key_with_a_field_that_is_missing_is_refused() -> None:
    assert refused({"topic": "a.{payload.none}"}) == (
        "rule 'rule-0' cannot route record 7 at 16/B374D848:2: its topic 'a.{payload.none}' cannot be made,"
        " payload.none is missing"
    )
    assert "payload.order is an object" in refused({"topic": "{payload.order}"})
    assert "its key '{topic}' cannot be made, topic is missing" in refused({"key": "{topic}"})
    assert "type is 'placed', of which regex leaves nothing" in refused({"topic": "{type|regex:^x}"})
    secret = RECORD._replace(payload=b'{"mail": "alice@example.org"}')
    said = refused({"key": "{payload.mail|regex:^x}"}, secret)
    assert "payload.mail has a value, of which regex leaves nothing" in said
    assert "alice" not in said
    assert "would be empty" in refused({"topic": "{type}"}, RECORD._replace(type=""))
    assert "where relays keep their positions" in _reserved()


def _reserved() -> str:
    with pytest.raises(Unroutable) as caught:
        router({"topic": "{type}"}, reserved=frozenset({"placed"})).route(RECORD)
    return str(caught.value)


def test_half_of_a_surrogate_pair_is_refused() -> None:
    record = RECORD._replace(payload=rb'{"a": "\ud800"}')
    why = "payload.a holds half of a surrogate pair, which is no text"
    for rule in ({"key": "{payload.a}"}, {"topic": "{payload.a}"}, {"when": {"payload.a": "x"}}):
        with pytest.raises(Unroutable, match=why):
            router(rule, {}).route(record)
    assert why in refused({"key": "{payload.a}"}, RECORD._replace(payload=rb'{"a": "\udc80"}'))
    record = RECORD._replace(columns={"tags": r'["a=\ud800"]'})
    assert "its tags hold half of a surrogate pair" in refused(
        {"when": {"column.tags": {"tags": {"any_of": ["a"]}}}}, record
    )


def test_half_of_a_surrogate_pair_elsewhere_in_the_payload_is_no_matter() -> None:
    record = RECORD._replace(payload=rb'{"a": "x", "b": "cut off \ud83d"}')
    assert message({"when": {"payload.a": "x"}, "key": "{payload.a}"}, record).value == record.payload


def nested(levels: int) -> OutboxRecord:
    return RECORD._replace(payload=b'{"kind": "order", "a": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}")


def below(calls: int, then: Any) -> Any:
    """What `then` returns where so many calls are above it already."""
    return below(calls - 1, then) if calls else then()


@pytest.mark.parametrize("calls", [0, 300])
@pytest.mark.parametrize("levels", [2, DEEPEST, DEEPEST + 1, 950, 1_000, 3_000, 100_000])
def test_the_depth_that_is_read_is_the_same_for_all_callers(levels: int, calls: int) -> None:
    rules = router({"when": {"payload.kind": "order"}, "topic": "orders"}, {"drop": True})
    record = nested(levels)
    asked = [rules.route, rules.topics, rules.dropping, lambda record: list(rules.verdicts(record))]
    if levels <= DEEPEST:
        assert [each.topic for each in below(calls, lambda: rules.route(record))] == ["orders"]
        for ask in asked:
            below(calls, lambda ask=ask: ask(record))
        return
    for ask in asked:
        with pytest.raises(Unroutable, match="payload cannot be read: it is nested too deeply") as caught:
            below(calls, lambda ask=ask: ask(record))
        assert caught.value.hint


@pytest.mark.parametrize(
    "rule",
    [
        {"payload": {"redact": ["kind"]}},
        {"payload": {"select": "kind"}},
        {"key": "{payload.kind}"},
        {"when": {"payload": {"tags": {"any_of": ["x"]}}}},
    ],
    ids=str,
)
def test_a_payload_that_is_nested_too_deeply_is_refused_wherever_it_is_read(rule: dict[str, Any]) -> None:
    with pytest.raises(Unroutable, match="nested too deeply"):
        router(rule).route(nested(DEEPEST + 1))


def test_brackets_in_texts_are_no_depth() -> None:
    text = b'{"kind": "order", "a": "' + b'[{\\"' * 2_000 + b'"}'
    assert matches({"payload.kind": "order"}, RECORD._replace(payload=text))


def test_a_text_of_brackets_side_by_side_is_flat() -> None:
    text = b'{"kind": "order", "a": [' + b"[{}], " * 2_000 + b"1]}"
    assert matches({"payload.kind": "order"}, RECORD._replace(payload=text))


def test_text_that_is_not_utf_8_keeps_its_bytes() -> None:
    record = RECORD._replace(payload=b'{"a": "caf\xe9"}')
    found = message(
        {"key": "{payload.a}", "headers": {"set": {"h": "{payload.a}"}}, "payload": {"select": "a"}}, record
    )
    assert (found.key, found.value) == (b"caf\xe9", b'"caf\xe9"')
    assert ("h", b"caf\xe9") in found.headers


def test_headers_are_set_renamed_and_removed() -> None:
    settings = {"set": {"tenant": "{tenant_id}", "none": "{payload.none}", "n": "six"}, "rename": {"region": "r"}}
    found = message({"headers": {**settings, "remove": ["gone"]}}).headers
    assert found == [
        *(("r", b"eu-west"), ("tenant", b"acme"), ("n", b"six")),
        *(("id", b"7"), ("type", b"placed"), ("position", b"16/B374D848:2")),
    ]


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("order.id", PAYLOAD.replace('"o-1"', "null")),
        ("order.total", PAYLOAD.replace("12.50", "null")),
        ("order.lines.sku", PAYLOAD.replace('"a"', "null").replace('"b"', "null")),
        ("order.lines.1", PAYLOAD.replace('{"sku": "b"}', "null")),
        ("none.at.all", PAYLOAD),
        ("vip.deeper", PAYLOAD),
    ],
)
def test_a_redacted_field_is_null_and_the_rest_stays_as_it_was_written(path: str, changed: str) -> None:
    assert message({"payload": {"redact": [path]}}).value == changed.encode()


def test_every_occurrence_is_redacted_and_nested_paths_too() -> None:
    record = RECORD._replace(payload=b' {"a": 1, "b": [{"a": 2}, [{"a": 3}]], "\\u0061": {"c": [1]}} ')
    found = message({"payload": {"redact": ["a", "a.c", "b.a"]}}, record)
    assert found.value == b' {"a": null, "b": [{"a": null}, [{"a": null}]], "\\u0061": null} '
    record = RECORD._replace(payload=b'[[{"0": 1}, 2], 3]')
    assert message({"payload": {"redact": ["0"]}}, record).value == b"[null, 3]"


def test_what_cannot_be_redacted_is_refused_and_no_payload_stays_none() -> None:
    rule = {"payload": {"redact": ["a"]}}
    assert "the payload is not JSON" in refused(rule, RECORD._replace(payload=b"secret"))
    assert message(rule, RECORD._replace(payload=None)).value is None
    assert message(rule, RECORD._replace(payload=b"null")).value == b"null"


def test_a_part_of_the_payload_is_published_as_it_was_written() -> None:
    assert message({"payload": {"select": "order.lines"}}).value == b'[{"sku": "a"}, {"sku": "b"}]'
    assert message({"payload": {"select": "order.lines.1.sku"}}).value == b'"b"'
    assert message({"payload": {"select": "order", "redact": ["order.lines"]}}).value == (
        b'{"id": "o-1", "total": 12.50, "lines": null}'
    )
    assert "has no none, which the rule selects" in refused({"payload": {"select": "none"}})


@pytest.mark.parametrize(
    ("path", "change", "is_shown"),
    [
        ("order.id", {"redact": ["order.id"]}, False),
        ("order.lines.1.sku", {"redact": ["order.lines.sku"]}, False),
        ("order.lines.1.sku", {"redact": ["order"]}, False),
        ("order.id", {"redact": ["order.total"]}, True),
        ("order.id", {"select": "order.lines"}, False),
        ("order.id", {}, True),
    ],
)
def test_a_verdict_does_not_show_what_a_rule_withholds(path: str, change: dict[str, Any], is_shown: bool) -> None:
    given: list[dict[str, Any]] = [{"when": {f"payload.{path}": "none"}}, {"payload": change} if change else {}]
    first = next(iter(router(*given).verdicts(RECORD)))
    value = "b" if path.endswith("sku") else "o-1"
    assert (repr(value) in first.why_not) == is_shown
    assert f"payload.{path} is" in first.why_not


@pytest.mark.parametrize(
    ("change", "payload", "published"),
    [
        ([{}], b'{"a": 1}', b'{"a": 1}'),
        ([{}], b"plain", b"plain"),
        ([{"redact": ["a"]}, {"redact": ["b.c"]}], b'{"a": 1, "b": {"c": 2}}', b'{"a": null, "b": {"c": null}}'),
        ([{"redact": ["a"]}], b'{"a": 1', None),
        ([{"redact": ["a"]}], b'{"a": ' + b"[" * 501 + b"]" * 501 + b"}", None),
        ([{"redact": ["a"]}], None, None),
        ([{"select": "b"}], b'{"a": 1, "b": 2}', None),
        ([{}, {"redact": ["a"], "select": "b"}], b'{"a": 1, "b": 2}', None),
    ],
)
def test_of_an_unrouted_record_is_published_what_every_rule_would_publish(
    change: list[dict[str, Any]], payload: bytes | None, published: bytes | None
) -> None:
    settings = [{"name": f"{number}", **({"payload": each} if each else {})} for number, each in enumerate(change)]
    rules = Rules("t", routes=tuple(RuleSettings.model_validate(each).rule for each in settings))
    assert rules.unrouted(RECORD._replace(payload=payload)) == published


def test_of_what_is_no_record_nothing_is_published_where_rules_redact() -> None:
    undecoded = Undecoded(LSN(1), 0, 0, "p", b'{"a": 1}', "why", "hint")
    redacting = RuleSettings.model_validate({"name": "x", "payload": {"redact": ["a"]}}).rule
    assert Rules("t").unrouted(undecoded) == b'{"a": 1}'
    assert Rules("t", routes=(redacting,)).unrouted(undecoded) is None


def test_verdicts_say_of_each_rule_whether_it_matches() -> None:
    rules: tuple[dict[str, Any], ...] = ({"when": {"type": "x"}}, {"topic": "t", "continue": True}, {"drop": True}, {})
    found = [(each.rule, each.why_not, each.drops) for each in router(*rules).verdicts(RECORD)]
    assert found == [("rule-0", "type is 'placed', not 'x'", False), ("rule-1", "", False), ("rule-2", "", True)]


def test_topics_are_those_of_the_messages() -> None:
    rules = ({"topic": "a.{type}", "continue": True}, {"when": {"tenant_id": "acme"}}, {"drop": True})
    assert router(*rules).topics(RECORD) == ["a.placed", "event.OrderLine"]
    assert router({"drop": True}).topics(RECORD) == []
    with pytest.raises(Unroutable):
        router({"when": {"type": "x"}}).topics(RECORD)


def test_a_payload_is_parsed_once_and_only_if_a_rule_looks_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from walrelay.route.rules import fields

    parsed, texts = fields.parsed, list[str]()

    def counted(text: str) -> Any:
        texts.append(text)
        return parsed(text)

    monkeypatch.setattr(fields, "parsed", counted)
    rules = [{"when": {"payload.order.id": str(number)}} for number in range(3)]
    assert router({"when": {"type": "placed"}}, *rules).route(RECORD)
    assert texts == []
    assert router(*rules, {}).route(RECORD)
    assert texts == [PAYLOAD]
    assert json.loads(texts[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-23 02:09:51", "2026-11-23T02:09:51Z"),
        ("2026-11-23 02:09:51.1+00", "2026-11-23T02:09:51.1Z"),
        ("2026-11-23 04:09:51.123456+02", "2026-11-23T02:09:51.123456Z"),
        ("2026-01-01T00:30:00.1234567+05:30", "2025-12-31T19:00:00.1234567Z"),
        ("2026-11-22 22:09:51-0400", "2026-11-23T02:09:51Z"),
        ("1890-01-01 00:00:00+00:53:28", "1889-12-31T23:06:32Z"),
        ("2026-11-23T02:09:51Z", "2026-11-23T02:09:51Z"),
        *((text, None) for text in ("infinity", "-infinity", "0044-03-15 12:00:00 BC", "20000-01-01 00:00:00")),
        *((text, None) for text in ("2026-11-23", "2026-02-30 00:00:00", "1769997600", "", "0001-01-01 00:00:00+01")),
    ],
)
def test_a_timestamp_is_iso_8601_in_utc(text: str, expected: str | None) -> None:
    record = RECORD._replace(created_at=text)
    headers = dict(message({"headers": {"set": {"at": "{created_at|utc}"}}}, record).headers)
    assert headers.get("at") == (None if expected is None else expected.encode())
    if expected is None:
        assert "created_at is" in refused({"key": "{created_at|utc}"}, record)


@pytest.mark.parametrize(("text", "expected"), [("t", b"true"), ("f", b"false"), ("true", b"true"), ("1", None)])
def test_a_boolean_is_true_or_false(text: str, expected: bytes | None) -> None:
    record = RECORD._replace(columns={"active": text})
    assert dict(message({"headers": {"set": {"x": "{column.active|boolean}"}}}, record).headers).get("x") == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("{wallet_id=42,vip}", "42"),
        ('{vip,"wallet_id=a, b}"}', "a, b}"),
        ("{my_wallet_id=7,wallet_id=8}", "8"),
        ('["wallet_id=9", 5]', "9"),
        ('{"wallet_id": "10"}', "10"),
        ("{wallet_id=2,wallet_id=1}", "1"),
        ("{wallet_id=}", ""),
        *((tags, None) for tags in ("{wallet_id}", "{}", "{my_wallet_id=7}", "wallet_id=1", "")),
    ],
)
def test_the_value_of_a_tag(tags: str, expected: str | None) -> None:
    record = RECORD._replace(columns={"tags": tags})
    headers = dict(message({"headers": {"set": {"x": "{column.tags|tag:wallet_id}"}}}, record).headers)
    assert headers.get("x") == (None if expected is None else expected.encode())
