"""Makes the message that Debezium's Outbox Event Router and a converter of Kafka Connect make of a row."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from walrelay.errors import AS_IT_WAS_WRITTEN, Fatal, Undecodable, Unroutable
from walrelay.model import ANY_PARTITION, AnyRecord, Message, OutboxRecord, Undecoded
from walrelay.route.debezium.columns import ColumnReader, column_reader
from walrelay.route.debezium.connect import ConverterName, Schema, Value, converter, prints
from walrelay.route.debezium.expansion import NotConverted, NotExpanded, expanded
from walrelay.route.debezium.options import DebeziumOptions
from walrelay.route.debezium.topics import TopicOfValue
from walrelay.route.debezium.types import BYTEA, SUPPORTED, CatalogColumn
from walrelay.route.router import Headers, refuse_bytes
from walrelay.route.template import reserved_topic

_CONTEXT = "__debezium.context."
_TEXT = Schema("string", optional=False)
_MILLISECONDS = {
    "io.debezium.time.Timestamp": 1,
    "io.debezium.time.MicroTimestamp": 1000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}
_BUFFERS = (None, "io.debezium.data.Bits")
_HINT = f"`walrelay docs from-debezium` lists where walrelay differs. {AS_IT_WAS_WRITTEN}"


class _Part(NamedTuple):
    """A column as a part of the message: `read` takes a record."""

    name: str
    schema: Schema
    read: Callable[[OutboxRecord], Value]


class DebeziumTopics:
    """The topic of a record; the column is one with a role."""

    def __init__(self, options: DebeziumOptions, reserved: frozenset[str] = frozenset()) -> None:
        """`reserved`: topics that no record may go to."""
        self._of_value = TopicOfValue(options.regex, options.replacement)
        self._column, self._reserved = options.route_by, reserved

    def of_record(self, record: OutboxRecord) -> list[str]:
        """One topic; Unroutable where there is none."""
        return [self.topic(record, record.aggregate_type)]

    def topic(self, record: OutboxRecord, value: Value) -> str:
        """`value`: the column's."""
        topic = self._of_value(value) if isinstance(value, str) else ""
        if not topic:
            raise _unroutable(record, f"{self._column} is empty, so it has no topic")
        if topic in self._reserved:
            raise reserved_topic(record, topic)
        if not topic.isascii():
            refuse_bytes(record, topic)
        return topic


class DebeziumRouter:
    """Implements `Routing`. One header is walrelay's own: `position`, the last."""

    def __init__(
        self,
        options: DebeziumOptions,
        columns: Sequence[CatalogColumn],
        table: tuple[str, str],
        reserved: frozenset[str] = frozenset(),
        run_id: str | None = None,
    ) -> None:
        """`columns`: the table's. `run_id`: of this process, for the header. Fatal for columns that cannot be had."""
        self._options, self._table = options, table
        self._columns = {column.name: column for column in columns}
        self._topics = DebeziumTopics(options, reserved)
        self._key = self._part(options.event_key, "table.field.event.key", options.key_converter)
        self._payload = self._part(options.payload, "table.field.event.payload", options.value_converter)
        self._key_bytes, self._value_bytes = converter(options.key_converter), converter(options.value_converter)
        self._header_bytes = converter(options.header_converter)
        placed = "table.fields.additional.placement"
        headers = [("id", options.event_id, "table.field.event.id")]
        headers += [(each.alias, each.column, placed) for each in options.placements if each.place == "header"]
        self._headers = [
            self._part(column, option, options.header_converter)._replace(name=name) for name, column, option in headers
        ]
        self._wrapped = [
            self._part(each.column, placed)._replace(name=each.alias)
            for each in options.placements
            if each.place == "envelope"
        ]
        self._partitions = [self._part(each.column, placed) for each in options.placements if each.place == "partition"]
        for column, schema, _ in self._partitions:
            self._refuse(schema.type == "int32", column, "an integer")
        self._version = None
        if options.schema_version is not None and options.wraps:
            self._version = self._part(options.schema_version, "table.field.event.schema.version")
            self._refuse(self._version.schema.type == "int32", options.schema_version, "an integer")
        self._timestamp, self._per_millisecond = None, 1
        if options.event_timestamp is not None:
            self._timestamp = self._part(options.event_timestamp, "table.field.event.timestamp")
            named = self._timestamp.schema.name
            self._refuse(named in _MILLISECONDS, options.event_timestamp, "a timestamp without zone")
            self._per_millisecond = _MILLISECONDS[named or ""]
        self._route_by = self._part(options.route_by, "route.by.field")
        route_by = column_reader(self._columns[options.route_by], options.modes)
        self._refuse(route_by is not None and route_by.is_verbatim, options.route_by, "text")
        self._context = self._context_headers(run_id)

    def route(self, record: AnyRecord) -> tuple[Message, ...]:
        """See `Routing`."""
        if isinstance(record, Undecoded):
            raise Undecodable(record.reason, hint=record.hint)
        try:
            return (self._message(record),)
        except NotConverted as why:
            raise _unroutable(record, f"its payload cannot be expanded: {why}") from None
        except UnicodeEncodeError:
            raise _unroutable(record, "it holds text that is not UTF-8") from None
        except ValueError as why:
            raise _unroutable(record, str(why)) from None

    def _message(self, record: OutboxRecord) -> Message:
        topic = self._topics.topic(record, self._route_by.read(record))
        key = self._key_bytes(self._key.schema, self._key.read(record))
        headers: Headers = [*self._context]
        for name, schema, read in self._headers:
            headers.append((name, self._header_bytes(schema, read(record))))
        headers.append(("position", record.position.encode()))
        timestamp = None if self._timestamp is None else self._timestamp.read(record)
        if isinstance(timestamp, int):
            milliseconds = _towards_zero(timestamp, self._per_millisecond)
        else:
            milliseconds = record.committed_at // 1000
        if not self._partitions:
            return Message(topic, key, self._value(record), headers, milliseconds)
        return Message(topic, key, self._value(record), headers, milliseconds, self._partition(record))

    def _partition(self, record: OutboxRecord) -> int:
        """The last column that is placed so counts, also if it is NULL: the key decides then."""
        name, _, read = self._partitions[-1]
        match read(record):
            case int(partition) if partition >= 0:
                return partition
            case None:
                return ANY_PARTITION
            case other:
                raise _unroutable(record, f"{name} is {other!r}, which is no partition")

    def _value(self, record: OutboxRecord) -> bytes | None:
        schema: Schema | None = self._payload.schema
        payload = self._payload.read(record)
        if self._options.expands and isinstance(payload, str):
            with suppress(NotExpanded):
                schema, payload = expanded(payload, keep_nulls=self._options.keeps_nulls)
        if self._options.tombstones and (payload is None or _is_blank(payload)):
            return None
        if not self._wrapped:
            return self._value_bytes(schema, payload)
        members: dict[str, Value] = {"payload": payload}
        members |= {name: read(record) for name, _, read in self._wrapped}
        described = Schema("string") if schema is None else schema
        fields = (("payload", described), *((name, of) for name, of, _ in self._wrapped))
        version = None if self._version is None else self._version.read(record)
        name = f"{self._options.topic_prefix}.{self._table[0]}.{self._table[1]}.{record.aggregate_type}.Value"
        number = version if isinstance(version, int) else None
        return self._value_bytes(Schema("struct", False, name, number, fields=fields), members)

    def _part(self, name: str, option: str, form: ConverterName | None = None) -> _Part:
        column = self._columns.get(name)
        if column is None:
            raise Fatal(
                f"table {'.'.join(self._table)} has no column {name!r}; it has: {', '.join(self._columns)}",
                hint=f"Correct debezium.{option} in the settings.",
            )
        reader = column_reader(column, self._options.modes)
        self._refuse(reader is not None, name, SUPPORTED)
        assert reader is not None
        if form == "bytes":
            fits = reader.schema.type == "bytes" and reader.schema.name in _BUFFERS
            self._refuse(fits, name, "bytea, for the converter bytes")
        if form == "string":
            wanted = (
                "one that Java prints as a value (not bytea, nor numeric without a scale), for the converter string"
            )
            self._refuse(prints(reader.schema), name, wanted)
        read = self._reading(column, reader)
        return _Part(name, reader.schema, read if reader.is_verbatim else _naming(name, read))

    def _reading(self, column: CatalogColumn, reader: ColumnReader) -> Callable[[OutboxRecord], Value]:
        """A column with a role is in its place of the record."""
        name, read = column.name, reader.read
        if name == self._options.payload:
            if column.type_oid == BYTEA and not column.is_domain:  # the decoder gives its bytes
                if reader.schema.type == "bytes":
                    return lambda record: record.payload
                return lambda record: read(None if record.payload is None else record.payload.hex())
            return lambda record: read(
                None if record.payload is None else record.payload.decode("utf-8", "surrogateescape")
            )
        for role, of_role in self._options.roles.items():
            if of_role == name:
                at = OutboxRecord._fields.index(role)
                return lambda record: read(record[at])  # type: ignore[arg-type]
        return lambda record: read(record.columns.get(name))

    def _refuse(self, suits: bool, column: str, wanted: str) -> None:
        if not suits:
            raise Fatal(
                f"column {column!r} of {'.'.join(self._table)} has a type that cannot be used there: it must be"
                f" {wanted}",
                hint="Correct `debezium` in the settings; `walrelay docs from-debezium` says what is supported.",
            )

    def _context_headers(self, run_id: str | None) -> Headers:
        prefix = self._options.topic_prefix
        if prefix is None or not self._options.context_headers:
            return []
        texts = {"connectorLogicalName": prefix, "taskId": "0", "connectorName": "postgresql", "runId": run_id}
        return [(_CONTEXT + name, self._header_bytes(_TEXT, text)) for name, text in texts.items() if text is not None]


def _naming(column: str, read: Callable[[OutboxRecord], Value]) -> Callable[[OutboxRecord], Value]:
    """`read`, whose errors say which column it is."""

    def naming(record: OutboxRecord) -> Value:
        try:
            return read(record)
        except ValueError as why:
            raise ValueError(f"column {column!r}: {why}") from None

    return naming


def _unroutable(record: OutboxRecord, why: str) -> Unroutable:
    return Unroutable(f"record {record.id} at {record.position}: {why}", hint=_HINT)


def _towards_zero(number: int, divisor: int) -> int:
    """As Java divides."""
    return number // divisor if number >= 0 else -(-number // divisor)


def _is_blank(payload: Value) -> bool:
    """As Java trims: everything up to the blank."""
    return isinstance(payload, str) and all(character <= " " for character in payload)
