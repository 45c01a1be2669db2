"""What `walrelay route test` shows: for records on stdin, in the table or in the slot, what the rules make of them."""

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from typing import Any, NamedTuple

from walrelay.dead_letter import message_json, shown
from walrelay.decode.messages import members_of
from walrelay.decode.records import RowDecoder
from walrelay.errors import Fatal, Undecodable, Unroutable
from walrelay.json_text import refuse_depth
from walrelay.lsn import LSN, ZERO
from walrelay.model import AnyRecord, Message, OutboxRecord, RecordPosition, Undecoded
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.snapshot import View
from walrelay.route import Routing
from walrelay.route.rules import RuleRouter, Verdict
from walrelay.source.peek import Peek
from walrelay.source.slot_source import usable_slot
from walrelay.table.rows import OutboxRows
from walrelay.table.selection import Selection, describe_table
from walrelay.wiring import Wiring

_BYTES = frozenset({"payload", "headers"})


class Routed(NamedTuple):
    """What becomes of a record. `refusal`: why it becomes nothing, with `hint`; `verdicts`: what each rule said."""

    id: str
    position: str
    verdicts: tuple[Verdict, ...]
    messages: tuple[Message, ...]
    dropped: bool = False
    refusal: str = ""
    hint: str = ""


def routed(wiring: Wiring, router: Routing, record: AnyRecord) -> Routed:
    """What the rules of the settings make of the record."""
    id_ = "" if isinstance(record, Undecoded) else record.id
    verdicts = list[Verdict]()
    try:
        if wiring.rules.routes and isinstance(router, RuleRouter) and isinstance(record, OutboxRecord):
            for each in router.verdicts(record):
                if not verdicts or each.rule != verdicts[-1].rule:  # a rule with several sinks says it for each
                    verdicts.append(each)
        messages = tuple(router.route(record))
    except (Unroutable, Undecodable) as why:
        return Routed(id_, record.position, tuple(verdicts), (), refusal=str(why), hint=why.hint)
    return Routed(id_, record.position, tuple(verdicts), messages, dropped=not messages)


def record_of_json(text: str) -> OutboxRecord:
    """A record in the form that `walrelay tail` prints; of the fields only `id` is needed, and a payload or headers may
    be JSON, which stays as it is written. Fatal for anything else.
    """
    try:
        refuse_depth(text, around=1)
        members = {name: _value(name, value) for name, value in members_of(text)}
        if members.get("id") is None:
            raise ValueError("there is no id")
        known = {*OutboxRecord._fields, "position"}
        if strange := sorted(members.keys() - known):
            raise ValueError(f"{strange[0]!r} is not a field; known are {', '.join(sorted(known))}")
        columns = members.pop("columns", None) or {}
        if not isinstance(columns, dict):
            raise ValueError("columns is not an object")
        commit_lsn, ordinal = RecordPosition.parse(members.get("position") or "0/0:0")
        texts = [members.get(name) for name in OutboxRecord._fields[3:-1]]
        return OutboxRecord._make((LSN(commit_lsn), ordinal or 0, 0, *texts, columns))
    except (ValueError, TypeError, AttributeError, RecursionError) as cause:
        raise Fatal(
            f"this is not a record: {cause}",
            hint='Write a JSON object, as in {"id": "1", "type": "placed", "payload": {"a": 1}, "columns": {"tags":'
            ' "{x}"}}; `walrelay tail` prints such lines.',
        ) from None


def in_table(wiring: Wiring, catalog: Catalog, rows: int) -> Iterator[OutboxRecord]:
    """The last rows of the table, in its order."""
    table = describe_table(catalog, wiring)
    with View(wiring.dsn, catalog) as view:
        decoder = RowDecoder(wiring.needed, table.types, ZERO)
        some = OutboxRows(view, table, Selection()).last(decoder.columns, rows)
        yield from (decoder.decode(values, 0) for values in some)


def in_slot(wiring: Wiring, catalog: Catalog, limit: int) -> Iterator[AnyRecord]:
    """The first records that wait in the slot, which stays where it is."""
    usable_slot(catalog.slot(wiring.slot), wiring.slot, wiring.plugin, catalog.database)
    decoder = wiring.decoder(wiring.needed, encoding=catalog.server_encoding(), binary=False)
    options = wiring.options(binary=False)
    peek = Peek(wiring.dsn, catalog, wiring.slot, wiring.publication, options, lambda text: None)
    left = limit
    with closing(peek.frames(limit)) as frames:
        for frame in frames:
            for event in decoder.decode(frame):
                if isinstance(event, OutboxRecord | Undecoded):
                    yield event
                    left -= 1
                    if not left:
                        return


def members(found: Routed) -> dict[str, object]:
    """As JSON, for programs."""
    return {
        "id": shown(found.id),
        "position": found.position,
        "rules": [
            {"rule": each.rule, "matches": not each.why_not, **({"why": each.why_not} if each.why_not else {})}
            for each in found.verdicts
        ],
        "messages": [json.loads(message_json(message)) for message in found.messages],
        "dropped": found.dropped,
        "refused": found.refusal or None,
    }


def router_of_given(wiring: Wiring, open_catalog: Callable[[], AbstractContextManager[Catalog]]) -> Routing:
    """For records that somebody gives. Only Debezium's rules need to know the table."""
    if wiring.rules.debezium is None:
        return wiring.rules.router()
    with open_catalog() as catalog:
        return wiring.router(catalog)


def _value(name: str, written: str) -> Any:
    if name == "columns" and written.startswith("{"):
        return {column: _text(value) for column, value in members_of(written)}
    text = _text(written)
    return text.encode("utf-8", "surrogateescape") if name in _BYTES and text is not None else text


def _text(written: str) -> str | None:
    """As `walrelay tail` prints it: {"base64": ...} for what is not UTF-8; JSON as it is. ValueError for half of a
    surrogate pair, which no text has.
    """
    if written == "null":
        return None
    if written.startswith('"'):
        text: str = json.loads(written)
        text.encode()
        return text
    if written.startswith("{") and [name for name, _ in members_of(written)] == ["base64"]:
        return b64decode(json.loads(written)["base64"]).decode("utf-8", "surrogateescape")
    written.encode()
    return written
