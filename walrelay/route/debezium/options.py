"""The router's options, by what they are called there."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from walrelay.route.debezium.connect import ConverterName
from walrelay.route.debezium.topics import TopicOfValue, compiled, parts
from walrelay.route.debezium.types import Modes

Place = Literal["header", "envelope", "partition"]
_PLACES: tuple[Place, ...] = get_args(Place)


class Placement(NamedTuple):
    """An entry of `table.fields.additional.placement`."""

    column: str
    place: Place
    alias: str

    @staticmethod
    def parse(text: str) -> "Placement":
        """`column:placement` or `column:placement:alias`; ValueError for anything else."""
        column, place, alias, *more = [*(part.strip() for part in text.split(":")), "", ""][
            : max(4, text.count(":") + 1)
        ]
        known = next((each for each in _PLACES if each == place), None)
        if known is None or not column or any(more):
            raise ValueError(f"{text.strip()!r} is not column:header, column:envelope, column:partition or with :alias")
        return Placement(column, known, alias or column)


class DebeziumOptions(NamedTuple):
    """What the router is configured with; `*_converter`: the converter of Kafka Connect for that part."""

    event_id: str = "id"
    event_key: str = "aggregateid"
    event_timestamp: str | None = None
    payload: str = "payload"
    schema_version: str | None = None
    placements: tuple[Placement, ...] = ()
    expands: bool = False
    keeps_nulls: bool = False
    route_by: str = "aggregatetype"
    regex: str = "(?<routedByValue>.*)"
    replacement: str = "outbox.event.${routedByValue}"
    tombstones: bool = False
    topic_prefix: str | None = None
    context_headers: bool = True
    key_converter: ConverterName = "string"
    value_converter: ConverterName = "string"
    header_converter: ConverterName = "simple"
    modes: Modes = Modes()

    @property
    def roles(self) -> dict[str, str]:
        """The columns with a role, by role."""
        return {
            "id": self.event_id,
            "aggregate_type": self.route_by,
            "aggregate_id": self.event_key,
            "payload": self.payload,
        }

    @property
    def others(self) -> tuple[str, ...]:
        """The columns without a role that are read."""
        named = [*(each.column for each in self.placements), self.event_timestamp, self.schema_version]
        roles = self.roles.values()
        return tuple(dict.fromkeys(column for column in named if column is not None and column not in roles))

    @property
    def places(self) -> bool:
        """Whether a column names the partition."""
        return any(each.place == "partition" for each in self.placements)

    @property
    def wraps(self) -> bool:
        """Whether the value is an envelope of the payload and other columns."""
        return any(each.place == "envelope" for each in self.placements)

    @property
    def template(self) -> str:
        """The topic as walrelay's own template, with the aggregate's type for all that the expression finds."""
        pattern = compiled(self.regex)
        texts = (
            part.replace("{", "{{").replace("}", "}}") if isinstance(part, str) else "{aggregate_type}"
            for part in parts(self.replacement, pattern)
        )
        return "".join(texts)


def faults(options: DebeziumOptions) -> Iterator[tuple[str, str]]:
    """What cannot be used together, or at all: the option, and what is wrong with it."""
    try:
        compiled(options.regex)
    except ValueError as error:
        yield "route.topic.regex", str(error)
    else:
        try:
            TopicOfValue(options.regex, options.replacement)
        except ValueError as error:
            yield "route.topic.replacement", str(error)
    if options.value_converter in ("string", "bytes") and (options.wraps or options.expands):
        what = "an envelope" if options.wraps else "an expanded payload"
        yield "value.converter", f"value.converter is {options.value_converter}, which cannot hold {what}: set json"
    if options.topic_prefix is None and options.wraps and options.value_converter == "json_with_schemas":
        yield "topic.prefix", "topic.prefix is missing: the schema of the envelope is named after it"
