"""Where the records of a relay go: its template, its reserved topics and its rules as one value."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from walrelay.model import AnyRecord, Finding, OutboxRecord, Undecoded
from walrelay.route.debezium import DebeziumOptions, DebeziumTopics
from walrelay.route.router import Router
from walrelay.route.rules.fields import Field, named
from walrelay.route.rules.payloads import redacted
from walrelay.route.rules.router import RuleRouter
from walrelay.route.rules.rule import Envelope, Rule
from walrelay.route.rules.schemas import Encoder
from walrelay.route.rules.templates import pattern
from walrelay.route.template import FIELDS, TopicTemplate

_ROUTED = {"id", "aggregate_id", "type", "payload", "headers", "topic"}


class Rules(NamedTuple):
    """Where records go: a template for records without a topic of their own, topics that are reserved, and the rules of
    `routes`, if there are any. `roles`: the role of a column, by column; `envelope`: of all messages without rules.
    Where the relay has several sinks, each rule names one, and topics are addresses but for the template.
    `debezium`: its router's options, instead of rules; `topic` is then what they make of the topic's column.
    `encoder`: for rules with a schema.
    """

    topic: str
    reserved: frozenset[str] = frozenset()
    routes: tuple[Rule, ...] = ()
    roles: Mapping[str, str] = MappingProxyType({})
    envelope: Envelope | None = None
    debezium: DebeziumOptions | None = None
    encoder: Encoder | None = None

    def router(self) -> Router | RuleRouter:
        """Makes messages from records by these rules; where there is `debezium`, `Wiring.router` makes it."""
        if self._all:
            return RuleRouter(self._all, self.topic, self.reserved, self.roles, self.encoder)
        return Router(self.topic, self.reserved)

    def topics_of(self) -> Callable[[OutboxRecord], list[str]]:
        """A function of a record with at least `fields` and `naming_columns`; Unroutable where no rule routes it."""
        if self.routes:
            return RuleRouter(self.routes, self.topic, self.reserved, self.roles).topics
        if self.debezium is not None:
            return DebeziumTopics(self.debezium, self.reserved).of_record
        template = TopicTemplate(self.topic)
        return lambda record: [record.topic or template.render(record)]

    def dropping(self, record: OutboxRecord) -> str | None:
        """The rule that drops a record for which `topics_of` knows no topic."""
        if not self.routes:
            return None
        return RuleRouter(self.routes, self.topic, self.reserved, self.roles).dropping(record)

    def unrouted(self, record: AnyRecord) -> bytes | None:
        """What may be published of a record that no rule made a message of: its payload without anything that any rule
        redacts, as it is not known which rule is meant for it. None where that cannot be said: it cannot be read, or
        a rule selects a part.
        """
        content = record.content if isinstance(record, Undecoded) else record.payload
        paths = {path for rule in self.routes for path in rule.redact}
        selects = any(rule.select is not None for rule in self.routes)
        if content is None or not (paths or selects):
            return content
        if selects or isinstance(record, Undecoded):
            return None
        try:
            return redacted(content.decode("utf-8", "surrogateescape"), paths).encode("utf-8", "surrogateescape")
        except ValueError:
            return None

    @property
    def uses_template(self) -> bool:
        """Whether a record may go to the topic of the template, or to the row's own."""
        return not self.routes or any(rule.topic is None and not rule.drop for rule in self.routes)

    @property
    def fields(self) -> set[str]:
        """The roles that decide about the topic."""
        named = set(TopicTemplate(self.topic).fields) | {"topic"} if self.uses_template else set()
        named |= {"aggregate_type"} if self.debezium is not None else set()
        return named | self._named(rule.naming_fields for rule in self.routes)[0]

    @property
    def needed(self) -> tuple[set[str], list[str]]:
        """The roles that routing needs, and the columns without a role."""
        if self.debezium is not None:
            return {*self.debezium.roles}, list(self.debezium.others)
        roles, columns = self._named(rule.fields for rule in self._all)
        return _ROUTED | self.fields | roles, columns

    @property
    def naming_columns(self) -> list[str]:
        """The columns without a role that decide about the topic."""
        return self._named(rule.naming_fields for rule in self.routes)[1]

    def examine_schemas(self) -> Iterator[Finding]:
        """The doctor's questions about the schemas of rules; none where no rule has one."""
        if self.encoder is not None:
            default = self.topic.format(**dict.fromkeys(FIELDS, "*"))
            topics = [default if rule.topic is None else pattern(rule.topic, "*") for rule in self.routes]
            schemas = [(rule.schema, topic) for rule, topic in zip(self.routes, topics, strict=True) if rule.schema]
            yield from self.encoder.examine(schemas)

    @property
    def _all(self) -> tuple[Rule, ...]:
        """An envelope without rules is that of one rule for every record."""
        return self.routes or (() if self.envelope is None else (Rule("every record", envelope=self.envelope),))

    def _named(self, fields: Iterable[Iterable[Field]]) -> tuple[set[str], list[str]]:
        roles, columns = named(field for some in fields for field in some)
        roles |= {self.roles[column] for column in columns if column in self.roles}
        return roles, [column for column in columns if column not in self.roles]

    @property
    def topics(self) -> list[str]:
        """The topics that are known beforehand, with `*` for what a row fills in."""
        own = self._by_template(self.topic.format(**dict.fromkeys(FIELDS, "*")))
        named = [rule for rule in self.routes if rule.topic is not None and not rule.drop]
        others = (topic for rule in named for topic in rule.addresses(pattern(rule.topic or "", "*")))
        return list(dict.fromkeys([*own, *others]))

    def _by_template(self, topic: str) -> list[str]:
        """What the template made, at each sink of the rules that use it."""
        if not self.routes:
            return [topic]
        rules = (rule for rule in self.routes if rule.topic is None and not rule.drop)
        return list(dict.fromkeys(made for rule in rules for made in rule.addresses(topic)))

    def named(self, names: Sequence[str], *, exact: bool) -> list[str]:
        """The topics for these names, each once. A name that the template can give is a topic; so is every name with
        `exact`, or if the template has not exactly one field. Any other name is filled into that field.
        """
        fields = TopicTemplate(self.topic).fields
        given = re.compile("|".join(".+".join(map(re.escape, each.split("*"))) for each in self.topics))
        found: list[str] = []
        for name in names:
            if exact or len(fields) != 1 or given.fullmatch(name):
                found.append(name)
            else:
                found += self._filled(fields[0], name)
        return list(dict.fromkeys(found))

    def _filled(self, field: str, name: str) -> list[str]:
        """The topics of this value; `SINK:VALUE` is that sink's alone."""
        sink, _, value = name.rpartition(":")
        made = self._by_template(self.topic.format(**{field: value}))
        return [topic for topic in made if not sink or topic.startswith(f"{sink}:")] or [
            self.topic.format(**{field: name})
        ]

    @property
    def whole_topics(self) -> set[str]:
        """The topics that are known without a row."""
        return {name for name in self.topics if "*" not in name}
