"""The routing of a record: its topic, key, value and headers."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from walrelay.errors import AS_IT_WAS_WRITTEN, Undecodable, Unroutable
from walrelay.json_text import NestedTooDeeply, has_half_pair, refuse_depth
from walrelay.lsn import ZERO
from walrelay.model import ANY_PARTITION, AnyRecord, Message, OutboxRecord, Undecoded
from walrelay.route.template import TopicTemplate, reserved_topic

Headers = list[tuple[str, bytes | None]]

_MEMORY = 10_000  # headers of types kept; types are few, but nothing says so
_message: Callable[[tuple[Any, ...]], Message] = partial(tuple.__new__, Message)


class Router:
    """One record to one message: topic by template (or the row's own), key = aggregate_id, value = payload.

    Headers are the row's own, in their order, then `id`, `type` and `position` (`16/B374D848:0`: commit LSN and
    ordinal, by which consumers may recognize repetitions). The timestamp is the commit's.
    """

    def __init__(self, topic: str, reserved: frozenset[str] = frozenset()) -> None:
        """`reserved`: topics that no record may go to."""
        self._template = TopicTemplate(topic, reserved)
        self._reserved = reserved
        self._commit_lsn = ZERO
        self._commit_text = str(ZERO).encode()
        self._types: dict[str, tuple[str, bytes]] = {}

    def route(self, record: AnyRecord) -> tuple[Message, ...]:
        """The messages for `record`, in order; Unroutable where the rules yield none, Undecodable for what is none."""
        if isinstance(record, Undecoded):
            raise Undecodable(record.reason, hint=record.hint)
        commit_lsn, ordinal, committed_at, id_, _, aggregate_id, type_, payload, headers_text, topic, _, _, _ = record
        if commit_lsn != self._commit_lsn:  # the text is the same for all records of a transaction
            self._commit_lsn = commit_lsn
            self._commit_text = str(commit_lsn).encode()
        headers = [] if headers_text == b"{}" or headers_text is None else own_headers(record)
        headers.append(("id", id_.encode("utf-8", "surrogateescape")))
        if type_ is not None:
            headers.append(self._types.get(type_) or self._type(type_))
        headers.append(("position", b"%b:%d" % (self._commit_text, ordinal)))
        if not topic:
            topic = self._template.render(record)
        elif topic in self._reserved:
            raise reserved_topic(record, topic)
        if not topic.isascii():
            refuse_bytes(record, topic)
        key = None if aggregate_id is None else aggregate_id.encode("utf-8", "surrogateescape")
        return (_message((topic, key, payload, headers, committed_at // 1000, ANY_PARTITION)),)

    def _type(self, name: str) -> tuple[str, bytes]:
        if len(self._types) >= _MEMORY:
            self._types.clear()
        header = self._types[name] = ("type", name.encode("utf-8", "surrogateescape"))
        return header


def refuse_bytes(record: OutboxRecord, topic: str) -> None:
    """A SQL_ASCII database may hold names that are not UTF-8; client libraries do not accept them."""
    try:
        topic.encode()
    except UnicodeEncodeError as cause:
        raise Unroutable(
            f"the topic of record {record.id} at {record.position} is not UTF-8: {topic!r}",
            hint="Topics are text. The name comes from the row's own topic, or from a column that route.topic names."
            f" {AS_IT_WAS_WRITTEN}",
        ) from cause


def own_headers(record: OutboxRecord) -> Headers:
    """The row's headers: strings as they are, null as a null value, anything else as its JSON text."""
    text = b"{}" if record.headers is None else record.headers
    if text == b"{}":
        return []
    try:
        document = text.decode("utf-8", "surrogateescape")
        refuse_depth(document)
        members = _JSON.decode(document)
        if members is None:
            return []
        if not isinstance(members, _Pairs):
            raise ValueError(f"it is a {_KINDS.get(type(members), 'number')}")
        found = [(name, None if value is None else _header_text(value)) for name, value in members]
        if has_half_pair(document, *(text for pair in found for text in pair if text)):
            raise ValueError("they hold half of a surrogate pair, which is no text")
        for name, _ in members:
            name.encode()  # a name is text for every broker, so it has to be UTF-8
        return [(name, text if text is None else text.encode("utf-8", "surrogateescape")) for name, text in found]
    except ValueError as cause:
        raise _not_headers(record, str(cause)) from cause
    except RecursionError as cause:
        raise _not_headers(record, str(NestedTooDeeply())) from cause


class _Pairs(list[tuple[str, object]]):
    """A JSON object's members in their order, with repeated names."""


class _Number(str):
    """A number as it is written, of any length."""

    __slots__ = ()


class _Written(str):
    """A piece of the text that is written."""

    __slots__ = ()


_COMMA = _Written(",")
_KINDS = {list: "list", str: "text", bool: "boolean"}
_JSON = json.JSONDecoder(parse_int=_Number, parse_float=_Number, object_pairs_hook=_Pairs)


def _header_text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    """The JSON text, without blanks; as deep as the value is, without a call for each level."""
    written, left = list[str](), [value]
    while left:
        match left.pop():
            case _Number() | _Written() as text:
                written.append(text)
            case _Pairs() as members:
                pieces: list[object] = [_Written("{")]
                for name, member in members:
                    pieces += [_Written(f"{json.dumps(name, ensure_ascii=False)}:"), member, _COMMA]
                left += [_Written("}"), *reversed(pieces[:-1] if members else pieces)]
            case list() as items:
                pieces = [_Written("["), *(piece for item in items for piece in (item, _COMMA))]
                left += [_Written("]"), *reversed(pieces[:-1] if items else pieces)]
            case scalar:
                written.append(json.dumps(scalar, ensure_ascii=False))
    return "".join(written)


def _not_headers(record: OutboxRecord, why: str) -> Unroutable:
    return Unroutable(
        f"the headers of record {record.id} at {record.position} are not a JSON object: {why}",
        hint='Headers are an object of names and values, as in {"traceparent": "00-..."}; the column is set by'
        f" outbox.columns.headers. {AS_IT_WAS_WRITTEN}",
    )
