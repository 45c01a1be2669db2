"""A rule as a value, and what is wrong with rules before a record comes: a fault names the rule and the setting."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from walrelay.model import Message, OutboxRecord, address
from walrelay.route.rules import templates
from walrelay.route.rules.conditions import Condition
from walrelay.route.rules.fields import Field, Fields, Known, named
from walrelay.route.rules.schemas import PayloadSchema

OWN_HEADERS = frozenset({"id", "type", "position", "replayed"})
"""Inboxes, audits and replays read them: rules leave them as they are."""

TopicFault = Callable[[str], str]
"""Why a broker has no topic of that name; empty where it may have one."""


Wrap = Callable[[OutboxRecord, Known, Message], Message]
"""Puts a message into its envelope; ValueError says why the record does not suit it."""


class Envelope(Protocol):
    """What a message's value and headers look like beyond the payload and the row's own headers."""

    @property
    def kind(self) -> str:
        """Its name in the settings."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Roles that the table must have a column for."""
        ...

    @property
    def parses(self) -> bool:
        """Whether it puts the payload into a JSON document, so that it cannot be encoded."""
        ...

    @property
    def fields(self) -> list[Field]:
        """The fields that its templates name."""
        ...

    def reserves(self, header: str) -> bool:
        """Whether it sets that header itself: a row's own header of that name is left out."""
        ...

    def wrapping(self, fields: Fields) -> Wrap:
        """Compiled; the wrap keeps topic, key and time of a message."""
        ...


class Rule(NamedTuple):
    """Templates and paths as they are written; None, and empty ones: as without rules.

    `topic`, `key` and the values of `set_headers` are templates. `redact` and `select`: paths into the payload.
    `sinks`: by name, where the relay has several; the router takes rules with one.
    """

    name: str
    when: tuple[Condition, ...] = ()
    topic: str | None = None
    key: str | None = None
    set_headers: tuple[tuple[str, str], ...] = ()
    rename_headers: tuple[tuple[str, str], ...] = ()
    remove_headers: tuple[str, ...] = ()
    redact: tuple[tuple[str, ...], ...] = ()
    select: tuple[str, ...] | None = None
    schema: PayloadSchema | None = None  # None: the payload as it is
    envelope: Envelope | None = None  # None: no more headers, and no document around the payload
    drop: bool = False
    goes_on: bool = False  # later rules may match as well
    sinks: tuple[str, ...] = ()

    @property
    def by_sink(self) -> "list[Rule]":
        """A rule for each sink, which make a message each."""
        if len(self.sinks) < 2:
            return [self]
        *others, last = [self._replace(sinks=(sink,)) for sink in self.sinks]
        return [*(each._replace(goes_on=True) for each in others), last]

    def addresses(self, topic: str) -> list[str]:
        """That topic at each of its sinks."""
        return [address(sink, topic) for sink in self.sinks or ("",)]

    @property
    def naming_fields(self) -> list[Field]:
        """The fields that decide which topic a record goes to, if any."""
        named = templates.fields(self.topic) if self.topic is not None and not self.drop else []
        return [Field.parse(condition.field) for condition in self.when] + named

    @property
    def fields(self) -> list[Field]:
        """All fields that the rule names."""
        texts = [text for text in (self.key, *(value for _, value in self.set_headers)) if text is not None]
        payload = [Field("payload", "payload")] if self.redact or self.select else []
        wrapped = [] if self.envelope is None else self.envelope.fields
        encoded = [] if self.schema is None else [Field("payload", "payload"), *self.schema.fields]
        written = (field for text in texts for field in templates.fields(text))
        return [*self.naming_fields, *written, *payload, *encoded, *wrapped]


class Fault(NamedTuple):
    """What is wrong with the rule of that number; `path`: which of its settings."""

    rule: int
    path: tuple[str, ...]
    text: str


def faults(
    rules: Sequence[Rule], absent: frozenset[str], reserved: frozenset[str], topic_fault: TopicFault
) -> Iterator[Fault]:
    """`absent`: the roles that the table has no column for; `reserved`: topics for no record. Topics are addresses."""
    for number, rule in enumerate(rules):
        earlier = rules[:number]
        if rule.name in {each.name for each in earlier}:
            yield Fault(number, ("name",), f"there is another rule {rule.name!r}: each needs a name of its own")
        for role in sorted(named(rule.fields)[0] & absent):
            yield Fault(number, (), f"names {role}, but outbox.columns.{role} is null")
        given = [] if rule.topic is None else rule.addresses(templates.pattern(rule.topic, "x"))
        if why := next(filter(None, map(topic_fault, given)), ""):
            yield Fault(number, ("topic",), f"{rule.topic!r} gives topics that the broker cannot have: {why}")
        if rule.topic is not None and not reserved.isdisjoint(rule.addresses(rule.topic)):
            yield Fault(
                number, ("topic",), f"{rule.topic!r} is where relays keep their positions (sink.positions_topic)"
            )
        if rule.envelope is not None:
            for role in sorted(rule.envelope.needs & absent):
                yield Fault(
                    number, ("envelope",), f"{rule.envelope.kind} needs {role}, but outbox.columns.{role} is null"
                )
            yield from _reserved_headers(number, rule, rule.envelope)
            if rule.schema is not None and rule.envelope.parses:
                text = f"the envelope {rule.envelope.kind} holds the payload as JSON here, so it cannot be encoded"
                yield Fault(number, ("schema",), f"{text}: take cloudevents with mode: binary, spring or raw")
        cause = next((each for each in earlier if not each.goes_on and _covers(each, rule)), None)
        if cause is not None:
            yield Fault(
                number, (), f"no record comes to it: {cause.name!r} takes all that match it. Put this one first"
            )
    if rules and rules[-1].goes_on:
        yield Fault(len(rules) - 1, ("continue",), "there is no rule after this one to continue with")


def _reserved_headers(number: int, rule: Rule, envelope: Envelope) -> Iterator[Fault]:
    for how, names in (("set", rule.set_headers), ("rename", rule.rename_headers)):
        for pair in names:
            if envelope.reserves(pair[how == "rename"]):
                name = pair[how == "rename"]
                yield Fault(number, ("headers", how, pair[0]), f"the envelope {envelope.kind} sets the header {name!r}")


def _covers(earlier: Rule, later: Rule) -> bool:
    """Whether all that match `later` surely match `earlier`."""
    return all(any(wide.covers(narrow) for narrow in later.when) for wide in earlier.when)


_HEADER = re.compile(r"[^\0\r\n]+")


def header_name(text: str) -> str:
    """ValueError for a header that rules cannot set, remove or rename."""
    if not _HEADER.fullmatch(text):
        raise ValueError(f"{text!r} is no name of a header")
    if text in OWN_HEADERS:
        raise ValueError(f"the header {text!r} is walrelay's own: consumers, audits and replays read it")
    return text
