"""The three formats: payloads of JSON through confluent-kafka's serializers, each for one schema of the registry."""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from decimal import Decimal, DecimalException, localcontext
from typing import Any, NoReturn, Protocol

from confluent_kafka.schema_registry import RegisteredSchema, Schema
from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from walrelay.json_text import NestedTooDeeply, refuse_depth
from walrelay.route.rules.schemas import Format

TYPES: dict[Format, str] = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
"""What the registry calls them."""

_CONTEXT = SerializationContext("", MessageField.VALUE)
_MOST_DIGITS = 1_000  # of an integer that is written as a fraction, or with an exponent
_ABOUT_A_FIELD = re.compile(r"Failed to parse (\w+) field|has no field named \"(\w+)\"")


class Encode(Protocol):
    """Encodes a payload in the registry's framing; ValueError where it does not suit the schema."""

    def __call__(self, payload: bytes) -> bytes: ...


class Pinned:
    """What a serializer sees of the registry: one schema, and those that it refers to."""

    def __init__(self, client: Any, registered: RegisteredSchema) -> None:
        self._client, self._registered = client, registered

    def get_latest_version(self, subject: str, fmt: str | None = None) -> RegisteredSchema:
        return self._registered

    def get_version(self, *which: Any) -> Any:
        return self._client.get_version(*which)

    def config(self) -> dict[str, Any]:
        return {}


def encoder(kind: Format, client: Any, registered: RegisteredSchema, record: str | None) -> Encode:
    """ValueError for a schema that is none of this format. Asks `client` for what it refers to.

    Libraries raise anything at payloads that nobody thought of; all that is not about the registry is a ValueError: the
    record is refused, and does not end the relay.
    """
    schema, type_ = registered.schema, registered.schema.schema_type or "AVRO"
    if type_ != TYPES[kind]:
        raise ValueError(f"the schema is one of {type_}, and `schema.format` is {kind}")
    if schema.rule_set is not None and (schema.rule_set.domain_rules or schema.rule_set.encoding_rules):
        raise ValueError("the schema has rules of a data contract, which walrelay does not carry out")
    make: Callable[[Any, RegisteredSchema, str | None], Encode] = {
        "avro": _avro,
        "json-schema": _json_schema,
        "protobuf": _protobuf,
    }[kind]
    try:
        encode = make(client, registered, record)
    except Exception as cause:
        if type(cause) is ValueError or about_the_registry(cause):
            raise
        raise ValueError(f"the schema cannot be used ({type(cause).__name__})") from None

    def encoded(payload: bytes) -> bytes:
        try:
            return encode(payload)
        except Exception as cause:
            if type(cause) is ValueError or about_the_registry(cause):
                raise
            raise ValueError(f"the payload cannot be encoded ({type(cause).__name__})") from None

    return encoded


def about_the_registry(cause: BaseException | None) -> bool:
    """Whether an error comes from asking it, or from asking for a schema at another address. The error before it does
    not count: a record may be routed while one is handled.
    """
    while cause is not None:
        if isinstance(cause, SchemaRegistryError | OAuthTokenError) or type(cause).__module__.startswith("http"):
            return True  # of httpx or its successors: the client picks one
        cause = cause.__cause__
    return False


def _options(registered: RegisteredSchema) -> dict[str, Any]:
    return {
        "auto.register.schemas": False,
        "use.latest.version": True,
        "subject.name.strategy": lambda context, name: registered.subject or "of an id",
    }


def _avro(client: Any, registered: RegisteredSchema, _: str | None) -> Encode:
    from confluent_kafka.schema_registry.avro import AvroSerializer

    from walrelay.schemas.avro import AvroSchema

    text = registered.schema.schema_str or ""
    try:
        schema = AvroSchema(json.loads(text), [json.loads(each) for _, each in _referred(client, registered.schema)])
    except json.JSONDecodeError:  # a primitive type may be written without quotes
        schema = AvroSchema(text, [])
    serialize = AvroSerializer(Pinned(client, registered), None, None, _options(registered))

    def encode(payload: bytes) -> bytes:
        return _serialized(serialize, schema.datum(_parsed(payload, fractions=_exact)))

    return encode


def _referred(client: Any, schema: Schema, seen: frozenset[str | None] = frozenset()) -> Iterator[tuple[str, str]]:
    """The names and texts of the schemas that it refers to, each behind those that itself refers to."""
    for reference in schema.references or ():
        if reference.name not in seen:
            seen |= {reference.name}
            found = client.get_version(reference.subject, reference.version, True).schema
            yield from _referred(client, found, seen)
            yield reference.name or "", found.schema_str


def _json_schema(client: Any, registered: RegisteredSchema, _: str | None) -> Encode:
    """The payload is checked, and stays as it was written. Its numbers are compared as they are written in decimal: as
    a float, 19.99 is no multiple of 0.01.
    """
    from confluent_kafka.schema_registry.common.json_schema import DEFAULT_SPEC, _retrieve_via_httpx
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from jsonschema.exceptions import SchemaError, ValidationError
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable

    text = registered.schema.schema_str or ""
    try:
        kind = validator_for(json.loads(text))
        kind.check_schema(json.loads(text))
    except SchemaError as cause:
        raise ValueError(f"the schema is none of JSON Schema's: {cause.message}") from None
    except (ValueError, AttributeError, TypeError):
        raise ValueError("the schema is none of JSON Schema's") from None
    named = [
        (name, Resource.from_contents(json.loads(each, parse_float=_compared), DEFAULT_SPEC))
        for name, each in _referred(client, registered.schema)
    ]
    registry: Any = Registry  # takes its arguments by attrs, of which mypy sees nothing
    check = kind(
        json.loads(text, parse_float=_compared),
        registry=registry(retrieve=_retrieve_via_httpx).with_resources(named),
    )
    written = b""
    serialize = JSONSerializer(
        None,
        Pinned(client, registered),
        None,
        {**_options(registered), "validate": False},
        json_encode=lambda value: written,
    )

    def encode(payload: bytes) -> bytes:
        nonlocal written
        written, value = payload, _parsed(payload, fractions=_compared)
        try:
            with localcontext(prec=2 * _MOST_DIGITS):
                check.validate(value)
        except ValidationError as fault:
            raise ValueError(_where(fault)) from None
        except Unresolvable as cause:
            if about_the_registry(cause):
                raise
            raise ValueError(f"the schema refers to {cause.ref!r}, which cannot be read") from None
        return _serialized(serialize, value)

    return encode


def _protobuf(client: Any, registered: RegisteredSchema, record: str | None) -> Encode:
    """By Protobuf's mapping to JSON. `record`: the message's full name; None: the first of the file."""
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from google.protobuf import descriptor_pb2, json_format, message_factory
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()

    def add(name: str, text: str | None) -> Any:
        file = descriptor_pb2.FileDescriptorProto()
        try:
            file.ParseFromString(b64decode(text or "", validate=True))
            file.name = name
            pool.Add(file)
        except Exception as cause:  # Protobuf's errors have no common class
            raise ValueError(f"the schema {name} is none of Protobuf's that the registry serialized: {cause}") from None
        return file

    _add_known_types(pool)
    _add_referred(client, registered.schema, add, set())
    file = add("default", registered.schema.schema_str)
    names = [".".join(filter(None, (file.package, each.name))) for each in file.message_type]
    if not names or (record is not None and record not in names):
        raise ValueError(f"the schema has no message {record or ''}; it has {', '.join(names) or 'none'}")
    message_class = message_factory.GetMessageClass(pool.FindMessageTypeByName(record or names[0]))
    serialize = ProtobufSerializer(message_class, Pinned(client, registered), _options(registered))

    def encode(payload: bytes) -> bytes:
        try:
            message = json_format.Parse(payload.decode(), message_class(), descriptor_pool=pool)
        except (json_format.ParseError, UnicodeDecodeError) as cause:
            about = _ABOUT_A_FIELD.search(str(cause))
            where = f"payload.{about[1] or about[2]}" if about else "the payload"
            raise ValueError(f"{where} does not suit {message_class.DESCRIPTOR.full_name}") from None
        return _serialized(serialize, message)

    return encode


def _add_known_types(pool: Any) -> None:
    from confluent_kafka.schema_registry.common.protobuf import _init_pool

    _init_pool(pool)


def _add_referred(client: Any, schema: Schema, add: Callable[[str, str | None], Any], seen: set[str]) -> None:
    for reference in schema.references or ():
        name = reference.name or ""
        if name not in seen and not name.startswith(("google/", "confluent/")):
            seen.add(name)
            found = client.get_version(reference.subject, reference.version, True, "serialized").schema
            _add_referred(client, found, add, seen)
            add(name, found.schema_str)


def _parsed(payload: bytes, *, fractions: Callable[[str], Any]) -> Any:
    try:
        text = payload.decode()
        refuse_depth(text)
        return json.loads(text, parse_float=fractions, parse_constant=_no_constant)
    except (NestedTooDeeply, RecursionError):
        raise ValueError(f"the payload cannot be encoded: {NestedTooDeeply()}") from None
    except ValueError:
        raise ValueError("the payload is no JSON, and is not encoded yet") from None


def _exact(text: str) -> Decimal:
    """NaN for an exponent that is beyond every limit."""
    try:
        return Decimal(text)
    except DecimalException:
        return Decimal("NaN")


def _compared(text: str) -> int | Decimal:
    """As JSON Schema sees it, to which 1.0 is an integer."""
    number = _exact(text)
    whole = number.adjusted() < _MOST_DIGITS and number == number.to_integral_value()
    return int(number) if whole else number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _serialized(serialize: Callable[[Any, SerializationContext], bytes | None], value: Any) -> bytes:
    """What the serializers say of a payload quotes it, so their words are not repeated."""
    if value is None:
        raise ValueError("the payload is JSON's null, which no serializer encodes; SQL's NULL is a tombstone")
    try:
        return serialize(value, _CONTEXT) or b""
    except (SerializationError, ValueError, TypeError) as cause:
        raise ValueError(f"the payload does not suit the schema ({type(cause).__name__})") from None


def _where(fault: Any) -> str:
    """Of a ValidationError of jsonschema: which part, and which keyword of the schema."""
    where = f"payload{fault.json_path[1:]} does not suit the schema"
    return where + (f": {fault.validator}" if fault.validator else "")
