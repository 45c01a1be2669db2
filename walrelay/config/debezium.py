"""The options of Debezium's Outbox Event Router, by its own names, and of the converters behind it."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from walrelay.config.values import Name, Section, SectionError
from walrelay.route.debezium import DebeziumOptions, Modes, Placement, faults
from walrelay.route.debezium.times import IntervalMode, TimeMode
from walrelay.route.debezium.types import BinaryMode, DecimalMode, HstoreMode


def _placements(value: Any) -> Any:
    """A list separated by commas, as Debezium takes it."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _parsed(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        Placement.parse(text)
    return texts


Text = Annotated[str, Field(min_length=1)]
Placements = Annotated[tuple[str, ...], BeforeValidator(_placements), AfterValidator(_parsed)]
Converter = Literal["string", "json", "json_with_schemas", "bytes"]
HeaderConverter = Literal["simple", "string", "json", "json_with_schemas"]


class DebeziumSettings(Section):
    """Messages as Debezium's Outbox Event Router makes them: its options, without `transforms.outbox.` before them, and
    the converters of Kafka Connect or Debezium Server. `walrelay docs from-debezium` explains it in full."""

    event_id: Annotated[Name, Field(alias="table.field.event.id")] = "id"
    """The column with the event's id, which becomes the header `id`."""

    event_key: Annotated[Name, Field(alias="table.field.event.key")] = "aggregateid"
    """The column that becomes the message's key."""

    event_type: Annotated[Name | None, Field(alias="table.field.event.type")] = "type"
    """The column with the event's type, for people: the router does not use it. `null`: the table has none."""

    event_timestamp: Annotated[Name | None, Field(alias="table.field.event.timestamp")] = None
    """The column, a timestamp without zone, that becomes the message's time; `null`: the time of the commit."""

    event_payload: Annotated[Name, Field(alias="table.field.event.payload")] = "payload"
    """The column that becomes the message's value."""

    schema_version: Annotated[Name | None, Field(alias="table.field.event.schema.version")] = None
    """The integer column with the version of the envelope's schema."""

    placement: Annotated[Placements, Field(alias="table.fields.additional.placement")] = ()
    """Further columns, as `column:header`, `column:envelope`, `column:header:alias` or, for an integer column,
    `column:partition`, with commas between them."""

    expand: Annotated[bool, Field(alias="table.expand.json.payload")] = False
    """true: a payload of JSON is published as JSON, not as text that holds JSON. Needs `value.converter: json`."""

    nulls: Annotated[Literal["ignore", "optional_bytes"], Field(alias="table.json.payload.null.behavior")] = "ignore"
    """Members that are null in an expanded payload: ignore leaves them out, optional_bytes keeps them."""

    route_by: Annotated[Name, Field(alias="route.by.field")] = "aggregatetype"
    """The column that names the topic."""

    topic_regex: Annotated[Text, Field(alias="route.topic.regex")] = DebeziumOptions().regex
    """Java's regular expression for the whole value of that column. What it does not match is the topic itself."""

    topic_replacement: Annotated[Text, Field(alias="route.topic.replacement")] = DebeziumOptions().replacement
    """The topic, with groups of the expression: `$1`, and `$${name}`, which is `${name}` in Debezium's file."""

    tombstones: Annotated[bool, Field(alias="route.tombstone.on.empty.payload")] = False
    """true: an empty payload becomes a tombstone, a message without a value, for any converter."""

    topic_prefix: Annotated[Text | None, Field(alias="topic.prefix")] = None
    """The connector's `topic.prefix`, for the headers `__debezium.context.*` and the name of the envelope's schema.
    `null`: no such headers."""

    context_headers: Annotated[bool, Field(alias="extended.headers.enabled")] = True
    """false: no headers `__debezium.context.*`, as before Debezium 3.2."""

    decimals: Annotated[DecimalMode, Field(alias="decimal.handling.mode")] = "precise"
    """The connector's: numeric and money as decimals of Connect, as texts or as floating-point numbers."""

    times: Annotated[TimeMode, Field(alias="time.precision.mode")] = "adaptive"
    """The connector's: the unit and the form of dates, times and timestamps without zone."""

    binaries: Annotated[BinaryMode, Field(alias="binary.handling.mode")] = "bytes"
    """The connector's: bytea as bytes, or as text."""

    intervals: Annotated[IntervalMode, Field(alias="interval.handling.mode")] = "numeric"
    """The connector's: intervals as microseconds, with months of 30.4375 days, or as texts in ISO 8601."""

    hstores: Annotated[HstoreMode, Field(alias="hstore.handling.mode")] = "json"
    """The connector's: hstore as a text with JSON, or as a map of Connect."""

    money_digits: Annotated[int, Field(alias="money.fraction.digits", ge=0, le=18)] = 2
    """The connector's: how many decimals money has, if `decimal.handling.mode` is precise."""

    key_converter: Annotated[Converter, Field(alias="key.converter")] = "string"
    """string: StringConverter, or simplestring in Debezium Server. json: JsonConverter with `schemas.enable: false`.
    json_with_schemas: JsonConverter, and the default of Debezium Server. bytes: ByteArrayConverter."""

    value_converter: Annotated[Converter, Field(alias="value.converter")] = "string"
    """As for keys."""

    header_converter: Annotated[HeaderConverter, Field(alias="header.converter")] = "simple"
    """simple: SimpleHeaderConverter, the default of Kafka Connect. string, json, json_with_schemas: as for keys."""

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        for option, text in faults(self.options):
            raise SectionError((option,), text)
        return self

    @property
    def options(self) -> DebeziumOptions:
        """The section as the router takes it."""
        return DebeziumOptions(
            event_id=self.event_id,
            event_key=self.event_key,
            event_timestamp=self.event_timestamp,
            payload=self.event_payload,
            schema_version=self.schema_version,
            placements=tuple(map(Placement.parse, self.placement)),
            expands=self.expand,
            keeps_nulls=self.nulls == "optional_bytes",
            route_by=self.route_by,
            regex=self.topic_regex,
            replacement=self.topic_replacement,
            tombstones=self.tombstones,
            topic_prefix=self.topic_prefix,
            context_headers=self.context_headers,
            key_converter=self.key_converter,
            value_converter=self.value_converter,
            header_converter=self.header_converter,
            modes=Modes(self.decimals, self.times, self.binaries, self.intervals, self.hstores, self.money_digits),
        )
