"""Routes records by rules, in their order: the first that matches says which message a record becomes, and with
`continue` the ones after it may add others. A record that no rule matches is refused, never left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from walrelay.errors import AS_IT_WAS_WRITTEN, Undecodable, Unroutable
from walrelay.lsn import ZERO
from walrelay.model import ANY_PARTITION, AnyRecord, Message, OutboxRecord, Undecoded, address
from walrelay.route.router import Headers, Router, refuse_bytes
from walrelay.route.rules.conditions import Condition, Matches, explained, explained_without_contents
from walrelay.route.rules.fields import Field, Fields, Known, Reader, Unevaluable, Value
from walrelay.route.rules.payloads import redacted, selected
from walrelay.route.rules.refusals import not_encoded, not_wrapped, refusal, unevaluable
from walrelay.route.rules.rule import Rule, Wrap
from walrelay.route.rules.schemas import Encoder, Encoding
from walrelay.route.rules.templates import MissingText, Render, renderer
from walrelay.route.template import TopicTemplate, reserved_topic

_MEMORY = 10_000  # headers of types kept

Explain = Callable[[str, Value, Condition], str]
Decision = tuple[tuple[Message, ...], str | None]  # and the rule that drops the record, if it becomes no message


_message: Callable[[tuple[Any, ...]], Message] = partial(tuple.__new__, Message)


class Verdict(NamedTuple):
    """What one rule says of a record: its message, or why it does not match. `drops`: it matches, and drops it."""

    rule: str
    message: Message | None
    why_not: str = ""
    drops: bool = False


class _Compiled(NamedTuple):
    rule: Rule
    tests: tuple[tuple[Reader, Matches], ...]
    topic: Render | None
    key: Render | None
    headers: tuple[tuple[str, Render], ...]
    renamed: dict[str, str]
    removed: frozenset[str]  # also those that are set anew
    changes: bool  # the payload
    encode: Wrap | None
    wrap: Wrap | None
    drops: bool
    ends: bool
    plain: bool  # its message is the one without rules


class RuleRouter:
    """Implements `Routing`. A rule without a topic uses the row's own, or the template `topic`."""

    def __init__(
        self,
        rules: Sequence[Rule],
        topic: str,
        reserved: frozenset[str] = frozenset(),
        roles: Mapping[str, str] = MappingProxyType({}),
        encoder: Encoder | None = None,
    ) -> None:
        """`roles`: the role of a column, by column. `encoder`: for rules with a schema."""
        self._template, self._reserved = TopicTemplate(topic, reserved), reserved
        self._fields, self._encoder = Fields(roles), encoder
        self._own_headers = self._fields.own_headers()
        self._commit_lsn, self._commit_text = ZERO, str(ZERO).encode()
        self._types: dict[str, tuple[str, bytes]] = {}
        self._plain = Router(topic, reserved).route  # makes a message in half the time
        self._rules = [self._compiled(rule) for rule in rules]
        self._nothing_known = self._fields.known()

    @property
    def drops(self) -> bool:
        """Whether any rule drops records."""
        return any(each.drops for each in self._rules)

    def route(self, record: AnyRecord) -> tuple[Message, ...]:
        """See `Routing`."""
        return self.decide(record)[0]

    def decide(self, record: AnyRecord) -> Decision:
        """The messages for `record`, in the order of the rules; Unroutable where no rule matches, or one that does
        cannot make its message; Undecodable for what is no record.
        """
        if isinstance(record, Undecoded):
            raise Undecodable(record.reason, hint=record.hint)
        messages: tuple[Message, ...] = ()
        known = self._nothing_known.copy()
        try:
            for each in self._rules:
                for read, matches in each[1]:
                    if not matches(read(record, known)):
                        break
                else:
                    if each.drops:
                        return messages, None if messages else each.rule.name
                    messages += self._plain(record) if each.plain else (self._message(each, record, known),)
                    if each.ends:
                        break
        except Unevaluable as why:
            raise unevaluable(record, why) from None
        if not messages:
            raise self._unroutable(record)
        return messages, None

    def topics(self, record: OutboxRecord) -> list[str]:
        """The topics of its messages, without making those; empty for one that is dropped. Unroutable as above."""
        known, found = self._fields.known(), list[str]()
        try:
            for each in self._rules:
                if all(matches(read(record, known)) for read, matches in each.tests):
                    if each.rule.drop:
                        return found
                    found.append(self._topic(each, record, known))
                    if not each.rule.goes_on:
                        break
        except Unevaluable as why:
            raise unevaluable(record, why) from None
        if not found:
            raise self._unroutable(record)
        return found

    def dropping(self, record: OutboxRecord) -> str | None:
        """The name of the rule that drops the record, where it becomes no message; `topics` is empty then. Unroutable
        as above.
        """
        known = self._fields.known()
        try:
            for each in self._rules:
                if all(matches(read(record, known)) for read, matches in each.tests):
                    return each.rule.name if each.drops else None
        except Unevaluable as why:
            raise unevaluable(record, why) from None
        return None

    def verdicts(self, record: OutboxRecord) -> Iterator[Verdict]:
        """What each rule says, for people, up to the last that is asked; raises as `decide` does."""
        known = self._fields.known()
        for each in self._rules:
            try:
                verdict = self._verdict(each, record, known)
            except Unevaluable as why:
                raise unevaluable(record, why) from None
            yield verdict
            if not verdict.why_not and (each.rule.drop or not each.rule.goes_on):
                return

    def _verdict(self, each: _Compiled, record: OutboxRecord, known: Known) -> Verdict:
        if why := self._why_not(each, record, known, self._explained):
            return Verdict(each.rule.name, None, why)
        message = None if each.rule.drop else self._message(each, record, known)
        return Verdict(each.rule.name, message, drops=each.rule.drop)

    def _explained(self, field: str, value: Value, condition: Condition) -> str:
        """Without a value that a rule withholds from its topic."""
        kind, name, path = self._fields.settled(Field.parse(field))
        if kind == "role" and name == "payload" and self._withholds(path):
            return explained_without_contents(field, value, condition)
        return explained(field, value, condition)

    def _withholds(self, path: tuple[str, ...]) -> bool:
        """Whether any rule leaves out what is at the path, or a part of it that is shown as text."""
        rules = [each.rule for each in self._rules if each.changes]
        return any(
            rule.select is not None or not path or any(_leads_through(path, steps) for steps in rule.redact)
            for rule in rules
        )

    def _compiled(self, rule: Rule) -> _Compiled:
        fields, encoder = self._fields, self._encoder
        return _Compiled(
            rule,
            tests=tuple((fields.reader(Field.parse(each.field)), each.matcher()) for each in rule.when),
            topic=None if rule.topic is None else renderer(rule.topic, fields),
            key=None if rule.key is None else renderer(rule.key, fields),
            headers=tuple((name, renderer(text, fields)) for name, text in rule.set_headers),
            renamed=dict(rule.rename_headers),
            removed=frozenset({*rule.remove_headers, *dict(rule.set_headers)}),
            changes=bool(rule.redact or rule.select),
            encode=None
            if rule.schema is None or encoder is None
            else Encoding(rule.schema, fields, encoder, addressed=bool(rule.sinks)),
            wrap=None if rule.envelope is None else rule.envelope.wrapping(fields),
            drops=rule.drop,
            ends=not rule.goes_on,
            plain=rule == Rule(rule.name, rule.when, goes_on=rule.goes_on),
        )

    def _message(self, each: _Compiled, record: OutboxRecord, known: Known) -> Message:
        topic = self._topic(each, record, known)
        key = record.aggregate_id if each.key is None else self._text(each, "key", each.key, record, known)
        value = self._value(each.rule, record) if each.changes else record.payload
        encoded = None if key is None else self._bytes(each, "key", key, record)
        headers, timestamp_ms = self._headers(each, record, known), record.committed_at // 1000
        message = _message((topic, encoded, value, headers, timestamp_ms, ANY_PARTITION))
        if each.encode is not None:
            try:
                message = each.encode(record, known, message)
            except ValueError as why:
                raise not_encoded(record, str(why)) from None
        if each.wrap is None:
            return message
        try:
            return each.wrap(record, known, message)
        except ValueError as why:
            raise not_wrapped(each.rule, record, str(why)) from None

    def _topic(self, each: _Compiled, record: OutboxRecord, known: Known) -> str:
        if each.topic is not None:
            topic = self._text(each, "topic", each.topic, record, known)
            if not topic:
                raise refusal(each.rule, record, f"its topic {each.rule.topic!r} would be empty")
        else:
            topic = record.topic or self._template.render(record)
        if each.rule.sinks:
            topic = address(each.rule.sinks[0], topic)
        if topic in self._reserved:
            raise reserved_topic(record, topic)
        if not topic.isascii():
            refuse_bytes(record, topic)
        return topic

    def _headers(self, each: _Compiled, record: OutboxRecord, known: Known) -> Headers:
        commit_lsn, ordinal, _, id_, _, _, type_, _, own, _, _, _, _ = record
        found = [] if own is None or own == b"{}" else [*self._own_headers(record, known)]
        if each.removed or each.renamed:
            renamed = each.renamed
            found = [(renamed.get(name, name), value) for name, value in found if name not in each.removed]
        if each.rule.envelope is not None:
            reserves = each.rule.envelope.reserves
            found = [header for header in found if not reserves(header[0])]
        if commit_lsn != self._commit_lsn:  # the text is the same for all records of a transaction
            self._commit_lsn = commit_lsn
            self._commit_text = str(commit_lsn).encode()
        for name, render in each.headers:
            try:
                text = render(record, known)
            except MissingText:
                continue  # as for a row whose headers do not have it
            found.append((name, self._bytes(each, f"header {name!r}", text, record)))
        found.append(("id", id_.encode("utf-8", "surrogateescape")))
        if type_ is not None:
            found.append(self._types.get(type_) or self._type(type_))
        found.append(("position", b"%b:%d" % (self._commit_text, ordinal)))
        return found

    def _type(self, name: str) -> tuple[str, bytes]:
        if len(self._types) >= _MEMORY:
            self._types.clear()
        header = self._types[name] = ("type", name.encode("utf-8", "surrogateescape"))
        return header

    def _value(self, rule: Rule, record: OutboxRecord) -> bytes | None:
        if record.payload is None:
            return None
        text: str | None = record.payload.decode("utf-8", "surrogateescape")
        try:
            if rule.redact and text is not None:
                text = redacted(text, rule.redact)
            if rule.select is not None and text is not None:
                text = selected(text, rule.select)
        except ValueError as cause:
            raise refusal(rule, record, str(cause)) from None
        if text is None:
            raise refusal(rule, record, f"its payload has no {'.'.join(rule.select or ())}, which the rule selects")
        return text.encode("utf-8", "surrogateescape")

    def _text(self, each: _Compiled, what: str, render: Render, record: OutboxRecord, known: Known) -> str:
        try:
            return render(record, known)
        except MissingText as why:
            template = each.rule.topic if what == "topic" else each.rule.key
            raise refusal(each.rule, record, f"its {what} {template!r} cannot be made, {why}") from None

    def _bytes(self, each: _Compiled, what: str, text: str, record: OutboxRecord) -> bytes:
        try:
            return text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can say
            raise refusal(
                each.rule, record, f"its {what} would hold half of a surrogate pair, which is no text"
            ) from None

    def _why_not(self, each: _Compiled, record: OutboxRecord, known: Known, explain: Explain) -> str:
        """Empty where the rule matches."""
        for condition, (read, matches) in zip(each.rule.when, each.tests, strict=True):
            value: Any = read(record, known)
            if not matches(value):
                return explain(condition.field, value, condition)
        return ""

    def _unroutable(self, record: OutboxRecord) -> Unroutable:
        known = self._fields.known()
        reasons = [self._why_not(each, record, known, explained_without_contents) for each in self._rules]
        why = "; ".join(f"{each.rule.name}: {reason}" for each, reason in zip(self._rules, reasons, strict=True))
        return Unroutable(
            f"no rule matches record {record.id} at {record.position} ({why})",
            hint="Add a rule to `routes` in the settings; one without `when` matches all that is left, and one with"
            f" `drop: true` leaves it out. `walrelay route test` shows why each does not match. {AS_IT_WAS_WRITTEN}",
        )


def _leads_through(path: tuple[str, ...], redacted: tuple[str, ...]) -> bool:
    """Whether the path goes to, or into, what is redacted; between its steps may be those into lists."""
    steps = iter(path)
    return all(step in steps for step in redacted)
