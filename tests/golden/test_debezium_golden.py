"""What Debezium's Outbox Event Router made of the rows in debezium/, and what the router here makes of them."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from walrelay.config.debezium import DebeziumSettings
from walrelay.decode.contract import Columns, OutboxLayout
from walrelay.decode.records import RowDecoder
from walrelay.errors import Fatal, Unroutable
from walrelay.lsn import LSN
from walrelay.model import ANY_PARTITION, Message, OutboxRecord
from walrelay.route.debezium import CatalogColumn, DebeziumRouter

DIRECTORY = Path(__file__).parent / "debezium"
DOMAIN = 16384  # its OID, which the decoder has from the stream
COMMITTED_AT = 1_767_323_045_123_456
CONVERTERS = [
    ("string", "string", "simple"),
    ("json", "json", "json"),
    ("json_with_schemas", "json_with_schemas", "json_with_schemas"),
    ("string", "bytes", "simple"),
    ("json", "json", "string"),
]
NOT_HERE = {
    "missing",
    "missing refused",
    "kinds without a form",
    "lists without a form",
    "kinds made NULL",
    "lists made NULL",
}
DISORDERED = {"12", "25"}
BEYOND_NANOSECONDS = {("types", "f"), ("lists", "d")}
LOST: dict[str, tuple[str, ...]] = {  # in which columns
    "no number": ("amount",),
    "no number either": ("anything",),
    "lost bit": ("bit_or_none",),
    "lost number": ("any_price",),
    "lost moment": ("at",),
    "lost item": ("mood", "paths"),
    "lost lists": ("square",),
}
OPTIONS: dict[str, dict[str, Any]] = json.loads((DIRECTORY / "options.json").read_text("utf-8"))


@cache
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DIRECTORY / "recorded.json").read_text("utf-8"))
    return found


class Case(NamedTuple):
    record: OutboxRecord
    theirs: dict[str, Any]


def settings(name: str, key: str, value: str, header: str) -> DebeziumSettings:
    converters = {"key.converter": key, "value.converter": value, "header.converter": header, "topic.prefix": "app"}
    asked = OPTIONS[name]
    return DebeziumSettings.model_validate(asked["router"] | asked.get("connector", {}) | converters)


def router(name: str, *converters: str) -> DebeziumRouter:
    options, table = settings(name, *converters).options, OPTIONS[name]["table"]
    described = recorded()["tables"][table]["columns"]
    columns = [CatalogColumn._make([*rest, labels and tuple(labels)]) for *rest, labels in described]
    return DebeziumRouter(options, columns, ("public", table), run_id="the run")


def cases(name: str) -> Iterator[Case]:
    """The rows as the decoder reads them, each with what Debezium made of it."""
    asked = OPTIONS[name]
    table, options = recorded()["tables"][asked["table"]], settings(name, *CONVERTERS[1]).options
    columns = Columns(**dict.fromkeys(Columns._fields))._replace(**options.roles)
    layout = OutboxLayout("public", asked["table"], columns, extra=options.others)
    names = [column for column, *_ in table["columns"]]
    types = {column: DOMAIN if is_domain else oid for column, oid, _, _, _, is_domain, *_ in table["columns"]}
    decoder = RowDecoder(layout, types, LSN(0))
    theirs = recorded()["routed"][name]
    for row, routed in zip(table["rows"], theirs if len(theirs) > 1 else theirs * len(table["rows"]), strict=True):
        texts = (row[names.index(column)] for column in decoder.columns)
        values = [None if text is None else text.encode() for text in texts]
        yield Case(decoder.decode(values, COMMITTED_AT), routed)


def as_bytes(form: Any) -> bytes | None:
    """As the recorder writes it: text, null, or what is not UTF-8 in base64."""
    return b64decode(form["base64"]) if isinstance(form, dict) else None if form is None else form.encode()


def converted(theirs: dict[str, Any], key: str, value: str, header: str) -> Message | None:
    """Their message with these converters; None if one of them failed."""
    if "error" in theirs or (theirs["partition"] or 0) < 0:  # which Kafka's producer refuses
        return None
    forms = [theirs["key"][key], theirs["value"][value], *(form[header] for _, form in theirs["headers"] if form)]
    if any(isinstance(form, dict) and "error" in form for form in forms):
        return None
    moment = COMMITTED_AT // 1000 if theirs["timestamp"] == "processed" else theirs["timestamp"]
    headers = [(name, as_bytes(form[header])) for name, form in theirs["headers"] if form]
    partition = ANY_PARTITION if theirs["partition"] is None else theirs["partition"]
    return Message(theirs["topic"], as_bytes(forms[0]), as_bytes(forms[1]), headers, moment, partition)


_UNSUITED = re.compile(
    r"java\.nio\.Heap|Struct\{|\[B@|[A-Z]\w\w [A-Z]\w\w \d\d [\d:]{8} UTC"
    r"|: Invalid schema type|is not of type INT(64|32)|cannot be cast to class java\.lang\.Long"
    r"|is not compatible with objects"
)


def unsuited(theirs: dict[str, Any], key: str, value: str, header: str) -> bool:
    """Whether a converter, or the router, does not take the type of a column; Java prints bytes as their address, and
    times of Connect in the zone of its machine.
    """
    if "error" in theirs:
        return _UNSUITED.search(theirs["error"]) is not None
    forms = [theirs["key"][key], theirs["value"][value], *(form[header] for _, form in theirs["headers"] if form)]
    said = [form["error"] if isinstance(form, dict) and "error" in form else str(form) for form in forms]
    return any(_UNSUITED.search(each) is not None for each in said)


def is_lost(name: str, record: OutboxRecord) -> bool:
    """Whether the row has a value that is lost there: it becomes NULL, or another one."""
    asked, id_ = str(OPTIONS[name]), str(record.id)
    modes = settings(name, *CONVERTERS[1]).options.modes
    columns = LOST.get(id_, ())
    if (OPTIONS[name]["table"], id_) in BEYOND_NANOSECONDS and modes.times == "nanoseconds":
        columns = ("at",)
    if id_.startswith("no number") and modes.decimals != "precise":
        columns = ()
    return any(re.search(rf"\b{column}[:']", asked) for column in columns)


def _with_any_name(message: Message) -> Message:
    """Debezium keeps the schema of an envelope, and its name, for other aggregates with the same type of payload."""
    value = message.value and re.sub(rb'("name":"app\.public\.\w+\.)[^"]*?(\.Value")', rb"\1*\2", message.value)
    return message._replace(value=value)


def _in_any_order(part: Any) -> Any:
    """Fields of differing objects in a list come in another order with each run of Debezium."""
    if isinstance(part, dict):
        return {name: _in_any_order(value) for name, value in part.items()}
    if not isinstance(part, list):
        return part
    items = [_in_any_order(each) for each in part]
    are_fields = items and all(isinstance(each, dict) and "field" in each for each in items)
    return sorted(items, key=lambda each: each["field"]) if are_fields else items


def differences(name: str, *converters: str) -> list[str]:
    """In words, for each row that becomes something else."""
    route = router(name, *converters).route
    found = list[str]()
    for record, described in cases(name):
        if OPTIONS[name]["table"] == "types" and record.payload == b'{"infinity": 1}':
            continue
        theirs, ours, why = converted(described, *converters), None, ""
        try:
            (ours,) = route(record)
        except Unroutable as error:
            why = str(error)
        if is_lost(name, record):
            found += [] if ours is None else [f"{record.id}: {ours}, although it is lost there"]
            continue
        if ours is None or theirs is None:
            found += [f"{record.id}: {ours or why!r}, theirs is {theirs or described}"] if ours != theirs else []
            continue
        headers = [header for header in ours.headers if header[0] not in ("position", "__debezium.context.runId")]
        ours = ours._replace(headers=headers)
        ours, theirs = _with_any_name(ours), _with_any_name(theirs)
        if OPTIONS[name]["table"] == "texts" and "expanded" in name and record.id in DISORDERED:
            assert ours.value is not None
            assert theirs.value is not None
            assert _in_any_order(json.loads(ours.value)) == _in_any_order(json.loads(theirs.value))
            theirs = theirs._replace(value=ours.value)
        pairs = zip(Message._fields, ours, theirs, strict=True)
        found += [f"{record.id}: {part} is {one!r}, theirs {other!r}" for part, one, other in pairs if one != other]
    return found


@pytest.mark.parametrize("converters", CONVERTERS, ids="-".join)
@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in NOT_HERE])
def test_a_row_becomes_what_debezium_makes_of_it(name: str, converters: tuple[str, str, str]) -> None:
    if {"expanded", "envelope"} & {*name.split()} and "json" not in converters[1]:
        with pytest.raises(ValueError, match="which cannot hold"):
            settings(name, *converters)
    elif any(unsuited(described, *converters) for _, described in cases(name)):
        with pytest.raises(Fatal, match="has a type that cannot be used there"):
            router(name, *converters)
    else:
        assert differences(name, *converters) == []


def test_infinity_is_refused_where_debezium_makes_an_arbitrary_moment_of_it() -> None:
    (record,) = (record for record, _ in cases("types timestamp") if record.id == "e")
    with pytest.raises(Unroutable, match="record e at 0/0:4: column 'at': 'infinity' is no moment"):
        router("types timestamp", *CONVERTERS[0]).route(record)


@pytest.mark.parametrize(
    ("table", "column", "id_", "why"),
    [
        ("kinds", "amount", "no number", "'NaN' is no decimal number"),
        ("kinds", "bit_or_none", "lost bit", "'' is no bit"),
        ("lists", "any_price", "lost number", "a list with NaN, of which Debezium makes NULL"),
        ("lists", "at", "lost moment", "the value in a list is before 1582-10-15"),
        ("lists", "mood", "lost item", "a list with an item that is NULL, of which Debezium makes NULL"),
        ("lists", "square", "lost lists", "the value is a list of lists, of which Debezium makes NULL"),
        ("extensions", "paths", "lost item", "a list with an item that is NULL"),
    ],
)
def test_a_value_that_debezium_loses_is_refused_with_its_column(table: str, column: str, id_: str, why: str) -> None:
    name = f"{table} headers"
    (record,) = (record for record, _ in cases(name) if record.id == id_)
    with pytest.raises(Unroutable, match=re.escape(f"record {id_} at {record.position}: column {column!r}: {why}")):
        router(name, *CONVERTERS[0]).route(record)


@pytest.mark.parametrize(
    ("of", "accepted"),
    [
        ({"type_oid": 1700, "is_domain": True}, True),
        ({"type_oid": 1009, "item_oid": 25}, True),
        ({"type_oid": 1009, "item_oid": 25, "is_domain": True}, False),
        ({"type_oid": 16400, "type_name": "citext"}, True),
        ({"type_oid": 16400, "type_name": "citext", "is_domain": True}, False),
        ({"type_oid": 16400, "labels": ("a",), "is_domain": True}, False),
        ({"type_oid": 16400, "type_name": "vector"}, False),
        ({"type_oid": 1700, "modifier": 4 + (5 << 16) + 0x7FE}, False),  # numeric(5,-2)
    ],
    ids=str,
)
def test_what_was_not_compared_is_refused(of: dict[str, Any], accepted: bool) -> None:
    column = CatalogColumn("x", **of)
    others = [CatalogColumn(name, 25) for name in ("id", "aggregatetype", "payload")]
    options = DebeziumSettings.model_validate({"table.field.event.key": "x", "key.converter": "json"}).options
    if accepted:
        DebeziumRouter(options, [*others, column], ("public", "t"))
    else:
        with pytest.raises(Fatal, match=r"column 'x' of public\.t has a type that cannot be used there"):
            DebeziumRouter(options, [*others, column], ("public", "t"))


def test_a_column_of_another_type_or_without_the_table_is_refused_before_any_row() -> None:
    for name, column in (
        ("kinds without a form", r"'area' of public\.kinds"),
        ("lists without a form", r"'email' of public\.lists"),
        ("kinds made NULL", r"'ident' of public\.kinds"),
        ("lists made NULL", r"'flags' of public\.lists"),
    ):
        with pytest.raises(Fatal, match=f"column {column} has a type that cannot be used there: it must be a text,"):
            router(name, *CONVERTERS[0])
    with pytest.raises(Fatal, match=r"table public\.outbox has no column 'nothing'; it has: id, aggregatetype,"):
        router("missing refused", *CONVERTERS[0])


def test_the_headers_of_the_context_come_first_and_the_position_last() -> None:
    record, theirs = next(cases("headers"))
    (message,) = router("headers", *CONVERTERS[0]).route(record)
    names = [name for name, _ in message.headers]
    assert names == [*(name for name, _ in theirs["headers"]), "position"]
    assert dict(message.headers)["__debezium.context.runId"] == b"the run"
