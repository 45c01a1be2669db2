"""The rules of `routes:` as they are written, and as the router takes them."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from walrelay.config.envelopes import EnvelopeSettings
from walrelay.config.schemas import SchemaSettings
from walrelay.config.sinks import SinkNames
from walrelay.config.values import AnyTemplate, RuleTemplate, Section, SectionError, Template, checked, plain_name
from walrelay.route import rules
from walrelay.route.rules.conditions import Operator, compiled
from walrelay.route.rules.fields import parse_path
from walrelay.route.rules.rule import header_name

_PLAIN_TEXT = {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]}


def _as_text(value: Any) -> Any:
    """Whole numbers and truth values as they are in the record; a fraction has lost its digits already."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        raise ValueError(f"{value!r} must be in quotes: numbers are compared as they are written")
    return str(value) if isinstance(value, int) else value


def _some(texts: tuple[str, ...]) -> tuple[str, ...]:
    if not texts:
        raise ValueError("is empty: no value is one of none")
    return texts


Text = Annotated[str, BeforeValidator(_as_text), WithJsonSchema(_PLAIN_TEXT)]
FieldName = Annotated[str, AfterValidator(checked(rules.Field.parse))]
Header = Annotated[str, AfterValidator(header_name)]
Path = Annotated[str, AfterValidator(checked(parse_path))]
Regex = Annotated[str, AfterValidator(checked(compiled))]
Some = Field(min_length=1)
NO_SCHEMA = SchemaSettings()


class TagSettings(Section):
    """The tags in an array or in JSON; a tag `name` stands for `name=` with any value."""

    required: tuple[Text, ...] = ()
    """All of these, and maybe others."""

    any_of: tuple[Text, ...] = ()
    """One of these at least."""

    exactly: tuple[Text, ...] | None = None
    """All of these, and no others."""


class ConditionSettings(Section):
    """What a field has to be; all that is said has to hold. A text, or a list of them, means one of those."""

    one_of: Annotated[tuple[Text, ...], AfterValidator(_some)] | None = None
    """The whole value is one of these texts."""

    prefix: Annotated[str, Some] | None = None
    """The value begins with this text."""

    glob: Annotated[str, Some] | None = None
    """The whole value is like this pattern: `*` any characters, `?` any one, `[...]` one of these."""

    regex: Regex | None = None
    """The regular expression (Python's) is found in the value; `^` and `$` tie it to the ends."""

    exists: bool | None = None
    """true: there is a value. false: it is NULL or missing."""

    tags: TagSettings | None = None
    """Tags in an array, a JSON list or an object: `required` (all of these), `any_of`, `exactly` (these and no others);
    `name` stands for `name=` with any value."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not [*self.conditions("")]:
            raise ValueError(
                "says nothing: write a text, a list of texts, or one_of, prefix, glob, regex, exists, tags"
            )
        return self

    def conditions(self, field: str) -> list[rules.Condition]:
        found: dict[Operator, tuple[str, ...] | None] = {
            "one_of": self.one_of,
            "prefix": None if self.prefix is None else (self.prefix,),
            "glob": None if self.glob is None else (self.glob,),
            "regex": None if self.regex is None else (self.regex,),
            "exists": None if self.exists is None else ("true" if self.exists else "false",),
        }
        if self.tags is not None:
            found["tags_required"], found["tags_any_of"] = self.tags.required or None, self.tags.any_of or None
            found["tags_exactly"] = self.tags.exactly
        return [rules.Condition(field, operator, values) for operator, values in found.items() if values is not None]


def _condition(value: Any) -> Any:
    """A text or a list of texts is short for one_of."""
    if isinstance(value, dict | ConditionSettings):
        return value
    if value is None:
        raise ValueError("has no value; `exists: false` means NULL or missing")
    return {"one_of": value if isinstance(value, list) else [value]}


Condition = Annotated[ConditionSettings, BeforeValidator(_condition)]


class HeaderSettings(Section):
    """What becomes of the row's own headers. `id`, `type` and `position` stay as they are."""

    set: dict[Header, AnyTemplate] = Field(default_factory=dict)
    """A template for each header to be set. It is left out where a field of the template is missing."""

    rename: dict[Header, Header] = Field(default_factory=dict)
    """New names, by old ones."""

    remove: tuple[Header, ...] = ()
    """Headers to be left out."""


class PayloadSettings(Section):
    """What becomes of a payload that is JSON. What is not changed stays as it was written."""

    redact: tuple[Path, ...] = ()
    """Paths whose values become null, as in `customer.email`; a path leads through all items of a list."""

    select: Path | None = None
    """The path of the part that is published instead of the whole, after the redaction."""


class RuleSettings(Section):
    """A rule: which records it matches, and what becomes of them."""

    name: Annotated[str, AfterValidator(checked(plain_name("a rule")))]
    """In messages, logs and counts."""

    when: dict[FieldName, Condition] = Field(default_factory=dict)
    """Conditions by field, all of which have to hold; none: every record. Fields are `type` and the other roles,
    `header.NAME`, `column.NAME`, and paths into JSON: `payload.order.id`, `column.metadata.region`."""

    topic: RuleTemplate | None = None
    """A template, as in `orders.{type|kebab}`. null: the row's own topic, or `route.topic`."""

    key: RuleTemplate | None = None
    """A template for the message's key. null: the aggregate's id."""

    headers: HeaderSettings = HeaderSettings()
    payload: PayloadSettings = PayloadSettings()

    schema_: Annotated[SchemaSettings | None, Field(alias="schema")] = None
    """As `route.schema`, which null stands for. It encodes what the rule makes of the payload."""

    envelope: EnvelopeSettings | None = None
    """As `route.envelope`, which null stands for. It holds what the rule makes of headers and payload."""

    sink: SinkNames | None = None
    """The name of one of `sinks`, or a list of them: a message to each. null: `route.sink`."""

    drop: bool = False
    """true: the record becomes no message. It is counted."""

    continue_: Annotated[bool, Field(alias="continue")] = False
    """true: rules after this one may match as well, and each adds a message."""

    @model_validator(mode="after")
    def _drops_or_publishes(self) -> Self:
        if self.drop:
            for name in ("topic", "key", "headers", "payload", "schema_", "envelope", "sink", "continue_"):
                if name in self.model_fields_set:
                    raise SectionError((name.rstrip("_"),), "says how to publish, but the rule drops the record")
        return self

    def enveloped(self, envelope: EnvelopeSettings, schema: SchemaSettings = NO_SCHEMA) -> rules.Rule:
        """The rule as the router takes it. `envelope` and `schema`: where it has none of its own."""
        if self.drop:
            return self.rule
        schema, envelope = self.schema_ or schema, self.envelope or envelope
        return self.rule._replace(schema=schema.schema_of_payloads, envelope=envelope.envelope)

    @property
    def rule(self) -> rules.Rule:
        """The rule without its schema and its envelope."""
        conditions = (_boolean(each) for field, condition in self.when.items() for each in condition.conditions(field))
        return rules.Rule(
            self.name,
            tuple(conditions),
            topic=self.topic,
            key=self.key,
            set_headers=tuple(self.headers.set.items()),
            rename_headers=tuple(self.headers.rename.items()),
            remove_headers=self.headers.remove,
            redact=tuple(map(parse_path, self.payload.redact)),
            select=None if self.payload.select is None else parse_path(self.payload.select),
            drop=self.drop,
            goes_on=self.continue_,
            sinks=self.sink or (),
        )


def _boolean(condition: rules.Condition) -> rules.Condition:
    """PostgreSQL prints a boolean as t or f."""
    kind, _, path = rules.Field.parse(condition.field)
    if kind != "column" or path or condition.operator != "one_of":
        return condition
    return condition._replace(
        values=(*condition.values, *(each[0] for each in condition.values if each in ("true", "false")))
    )


Routes = tuple[RuleSettings, ...]


class RouteSettings(Section):
    """Where a record goes, and what its message has, unless a rule of `routes` says otherwise."""

    topic: Template = "outbox.event.{aggregate_type}"
    """The topic of a record without a topic of its own. Fields: `{aggregate_type}`, `{aggregate_id}`, `{type}`,
    `{tenant_id}`; write a literal brace twice."""

    key: RuleTemplate | None = None
    """A template for the message's key, as in `{tenant_id}:{aggregate_id}`. null: the aggregate's id. Templates of key
    and headers take the fields and filters of rules: `walrelay docs routing`."""

    headers: dict[Header, AnyTemplate | None] = Field(default_factory=dict)
    """A template for each header besides the row's own, as in `routing-key: "{column.routing_key}"`. It is left out
    where a field of the template is missing. null: no such header, although the preset has it."""

    schema_: Annotated[SchemaSettings, Field(alias="schema")] = NO_SCHEMA

    envelope: EnvelopeSettings = EnvelopeSettings()

    sink: SinkNames | None = None
    """With `sinks`: the name of the sink, or a list of them, of records whose rule names none. `walrelay docs
    several-sinks` explains it."""

    @property
    def rule(self) -> rules.Rule:
        """A rule for every record."""
        named = tuple((name, text) for name, text in self.headers.items() if text is not None)
        schema, envelope = self.schema_.schema_of_payloads, self.envelope.envelope
        return rules.Rule(
            "every record",
            key=self.key,
            set_headers=named,
            schema=schema,
            envelope=envelope,
            sinks=self.sink or (),
        )

    def below(self, rule: rules.Rule) -> rules.Rule:
        """`rule` with the key, headers and sinks of this section where it says nothing of them."""
        said = {*rule.remove_headers, *(name for name, _ in rule.set_headers)}
        mine = tuple((name, text) for name, text in self.rule.set_headers if name not in said)
        key = self.key if rule.key is None else rule.key
        if rule.drop:
            return rule
        return rule._replace(key=key, set_headers=(*mine, *rule.set_headers), sinks=rule.sinks or self.rule.sinks)
