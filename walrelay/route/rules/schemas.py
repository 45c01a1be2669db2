"""Payloads that are written by a schema of a registry: which schema a record's is, and who encodes it.

The encoder asks the registry over the network, so it is no part of routing: routing names the schema, and calls it.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, Protocol

from walrelay.model import Finding, Message, OutboxRecord, sink_and_topic
from walrelay.route.rules import templates
from walrelay.route.rules.fields import Field, Fields, Known
from walrelay.route.rules.templates import MissingText, Render, renderer

Format = Literal["avro", "json-schema", "protobuf"]
Strategy = Literal["topic", "record", "topic-record"]

_ENCODED = (b"\0", b"\1")  # the first byte of Confluent's two framings, with which no JSON begins


class Reference(NamedTuple):
    """A schema that another one names."""

    name: str
    subject: str
    version: int


class OwnSchema(NamedTuple):
    """A schema of the settings. `registers`: it is registered where the registry does not have it."""

    text: str
    references: tuple[Reference, ...] = ()
    registers: bool = False


class PayloadSchema(NamedTuple):
    """What the settings say of a rule's schema. `record`, `version` and `id` are templates; an `id`, or a schema of the
    settings, takes the place of the version.
    """

    format: Format
    strategy: Strategy = "topic"
    record: str | None = None
    version: str = "latest"
    id: str | None = None
    own: OwnSchema | None = None

    @property
    def fields(self) -> list[Field]:
        """The fields that its templates name."""
        texts = [text for text in (self.record, self.version, self.id) if text is not None]
        return [field for text in texts for field in templates.fields(text)]


class SchemaRequest(NamedTuple):
    """The schema of one message. `version`: `latest` or a number; `id`: the schema's number in the registry, instead.
    `record`: the full name of what the payload is, where the settings give it.
    """

    format: Format
    subject: str
    version: str = "latest"
    id: str | None = None
    record: str | None = None
    own: OwnSchema | None = None


class Encoder(Protocol):
    """Encodes payloads by the schemas of a registry."""

    def encoded(self, wanted: SchemaRequest, payload: bytes) -> bytes:
        """In the registry's framing. ValueError says why a payload does not suit its schema, or that there is no such
        schema; RegistryAway where the registry cannot be asked; Fatal where it refuses walrelay. Waits for the registry
        for a few seconds at most.
        """
        ...

    def examine(self, schemas: Iterable[tuple[PayloadSchema, str]]) -> Iterator[Finding]:
        """The doctor's questions: whether the registry answers, and has the schemas, each with the topic that it is
        for, where the settings name them without a record; a `*` in a topic stands for any text. Changes nothing there.
        """
        ...


class Encoding:
    """A rule's schema, compiled."""

    def __init__(self, schema: PayloadSchema, fields: Fields, encoder: Encoder, *, addressed: bool = False) -> None:
        """`addressed`: topics are addresses, which name a sink."""
        self._schema, self._encoder, self._addressed = schema, encoder, addressed
        self._record = None if schema.record is None else renderer(schema.record, fields)
        self._version = renderer(schema.version, fields)
        self._id = None if schema.id is None else renderer(schema.id, fields)

    def __call__(self, record: OutboxRecord, known: Known, message: Message) -> Message:
        """The message with its payload encoded; without one, or encoded by whoever wrote it, as it is. Raises as
        `Encoder.encoded` does.
        """
        payload = message.value
        if payload is None or payload[:1] in _ENCODED:
            return message
        name = None if self._record is None else _text("record", self._record, record, known)
        topic = sink_and_topic(message.topic)[1] if self._addressed else message.topic
        wanted = SchemaRequest(
            self._schema.format,
            subject_of(self._schema.strategy, topic, name),
            _text("version", self._version, record, known),
            None if self._id is None else _text("id", self._id, record, known),
            name,
            self._schema.own,
        )
        return message._replace(value=self._encoder.encoded(wanted, payload))


def subject_of(strategy: Strategy, topic: str, record: str | None) -> str:
    """By the names that Confluent's serializers give to subjects of values."""
    match strategy:
        case "topic":
            return f"{topic}-value"
        case "record":
            return record or ""
    return f"{topic}-{record}"


def _text(what: str, render: Render, record: OutboxRecord, known: Known) -> str:
    try:
        return render(record, known)
    except MissingText as why:
        raise ValueError(f"the {what} of its schema cannot be made, {why}") from None
