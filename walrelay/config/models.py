"""The settings as frozen models, in the order the data flows. The docstring of each setting is its documentation.

Here is the file as a whole, with what one section asks of another. A large section has a module of its own, and a sink
has its settings beside it.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from walrelay.config import presets, sinks
from walrelay.config.admin import AdminSettings
from walrelay.config.debezium import DebeziumSettings
from walrelay.config.events import EventSettings
from walrelay.config.monitoring import HealthSettings, HttpSettings, MetricsSettings, OtlpSettings
from walrelay.config.outbox import OutboxSettings
from walrelay.config.refusals import RefusalSettings
from walrelay.config.routes import Routes, RouteSettings
from walrelay.config.schemas import SchemaRegistrySettings
from walrelay.config.sinks import SinkName, some
from walrelay.config.source import PositionSettings, SourceSettings
from walrelay.config.values import Duration, Seconds, Section, SectionError, SinkSettings
from walrelay.decode import contract
from walrelay.publish import load
from walrelay.route import TopicTemplate
from walrelay.route.rules import Rule, faults
from walrelay.route.rules.fields import named


class RetrySettings(Section):
    """How long the relay waits after an error before the next run. The pause doubles each time; up to half of it is
    left out at random, so that relays that failed together do not return together."""

    min_pause: Seconds = 0.2
    """The first pause."""

    max_pause: Seconds = 30
    """The longest pause."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_pause > self.max_pause:
            raise SectionError(("min_pause",), f"{self.min_pause:g} is above max_pause ({self.max_pause:g})")
        return self


class LogSettings(Section):
    """The log, on stderr."""

    format: Literal["auto", "console", "json"] = "auto"
    """auto: console on a terminal, JSON lines elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important event that is logged."""


class Settings(Section):
    """A relay: one slot, one outbox, one sink or several."""

    source: SourceSettings
    outbox: OutboxSettings = OutboxSettings()
    route: RouteSettings = RouteSettings()

    routes: Routes = ()
    """Rules for records that need more than `route.topic`: in their order, the first that matches counts. A record that
    none matches is refused, and `refusals` says what becomes of it. `walrelay docs routing` explains them in full."""

    schema_registry: SchemaRegistrySettings | None = None
    """Where the schemas are that `route.schema` and `routes[].schema` name."""

    debezium: DebeziumSettings | None = None
    """Messages as Debezium's Outbox Event Router makes them, instead of `route`, `routes` and `outbox.columns`."""

    sink: SinkSettings | None

    sinks: Annotated[dict[SinkName, SinkSettings], AfterValidator(some)] | None = None
    """Several sinks by name, instead of `sink`: `route.sink` and the rules name them. `walrelay docs several-sinks`
    says what they share."""

    refusals: RefusalSettings = RefusalSettings()

    delivery: Literal["at_least_once", "exactly_once"] = "at_least_once"
    """at_least_once: after a crash, what was durable but not yet confirmed is published again. exactly_once, for kafka,
    redis, nats and postgres: messages become durable with their position; consumers of Kafka need
    `isolation.level: read_committed`."""

    position: PositionSettings = PositionSettings()

    retention: Duration | None = None
    """How long a row stays in the outbox, as in `7d` or `12h`. The leading relay then deletes older rows that
    are published and confirmed, in small batches, and drops whole days of a partitioned outbox. null: nothing is
    deleted. `walrelay docs cleanup` explains it in full."""

    retry: RetrySettings = RetrySettings()

    shutdown_timeout: Annotated[float, Field(ge=0, allow_inf_nan=False, json_schema_extra={"unit": "seconds"})] = 25
    """How long a stop waits for the messages in flight; what is not durable by then is published again at the
    next start. Keep it below the 30 seconds that Kubernetes gives a pod."""

    events: EventSettings = EventSettings()

    log: LogSettings = LogSettings()

    http: HttpSettings = HttpSettings()
    metrics: MetricsSettings = MetricsSettings()
    health: HealthSettings = HealthSettings()
    otlp: OtlpSettings = OtlpSettings()
    admin: AdminSettings = AdminSettings()

    @model_validator(mode="before")
    @classmethod
    def _over_the_preset(cls, sections: Any) -> Any:
        applied = presets.applied(sections)
        several = isinstance(applied, dict) and applied.get("sinks") is not None
        return {"sink": None, **applied} if several else applied

    @model_validator(mode="after")
    def _can_route(self) -> Self:
        """Otherwise the first row without a topic of its own would stop the relay."""
        if self.debezium is not None or (self.routes and all(each.drop or each.topic for each in self.routes)):
            return self
        for field in TopicTemplate(self.route.topic).fields:
            if getattr(self.outbox.columns, field) is None:
                raise SectionError(
                    ("outbox", "columns", field),
                    f"is null, but route.topic ({self.route.topic!r}) names {{{field}}}: give route.topic a topic"
                    " without it (any will do where each row names its own)",
                )
        return self

    @model_validator(mode="after")
    def _routes_in_one_way(self) -> Self:
        if self.debezium is not None:
            given = [("route",), ("routes",)] + (
                [("outbox", "columns")] if self.outbox.model_fields_set & {"columns"} else []
            )
            for path in given:
                if path[0] in self.model_fields_set:
                    raise SectionError(path, "has no meaning beside `debezium`, whose options say that: leave it out")
        return self

    @model_validator(mode="after")
    def _sinks_are_named(self) -> Self:
        """Before what asks the sinks about topics."""
        if self.sink is None and self.sinks is None:
            raise SectionError(("sink",), "has no value")
        if self.sinks is not None:
            other = "sink" if self.sink is not None else "debezium" if self.debezium is not None else ""
            if other:
                raise SectionError(("sinks",), f"has no meaning beside `{other}`: leave one of them out")
        rules = [(number, each.sink or ()) for number, each in enumerate(self.routes) if not each.drop]
        _raise(sinks.naming_faults(self.sinks, self.route.sink or (), rules))
        if self.sinks is not None:
            letters = None if self.refusals.dead_letters == "table" else self.refusals.dead_letter_topic
            once = self.delivery == "exactly_once"
            _raise(
                sinks.sharing_faults(
                    self.sinks,
                    exactly_once=once,
                    position=self.position.keep,
                    letters=letters,
                    patterns=self.refusals.topics,
                )
            )
        return self

    @model_validator(mode="after")
    def _can_place(self) -> Self:
        places = self.debezium is not None and bool(self.debezium.options.places)
        if places and self.sink is not None and not load(self.sink.kind).partitions:
            path = ("debezium", "table.fields.additional.placement")
            raise SectionError(path, f"a sink of kind {self.sink.kind!r} has no partitions: leave out `:partition`")
        return self

    @model_validator(mode="after")
    def _rules_can_match(self) -> Self:
        absent = frozenset(role for role, column in self.outbox.columns if column is None)
        mine = self.route.rule
        if self.routes:
            mine = mine._replace(schema=None, envelope=None)  # each rule has its own, or these
        else:
            self._refuse_envelope(absent)
        topic_fault = sinks.topic_fault(self.named_sinks)
        found: list[tuple[tuple[str | int, ...], str]] = [
            (("route", *(step for step in path if step != "set")), text)
            for _, path, text in faults([mine], absent, frozenset(), topic_fault)
        ]
        told = {text for _, text in found}
        for number, path, text in faults(self._rules if self.routes else (), absent, self.reserved_topics, topic_fault):
            if text not in told:
                found.append((("routes", number, *path), text))
        _raise(found)
        return self

    @model_validator(mode="after")
    def _knows_the_registry(self) -> Self:
        if self.schema_registry is None and any(rule.schema is not None for rule in (self.route.rule, *self.rules)):
            raise SectionError(
                (), "schema_registry is missing: a schema is named, so write schema_registry: {url: ...}"
            )
        return self

    @model_validator(mode="after")
    def _can_deliver(self) -> Self:
        kind = "" if self.sink is None else self.sink.kind
        if self.delivery == "exactly_once" and kind and load(kind).exactly_once is None:
            raise SectionError(
                ("delivery",),
                f"a sink of kind {kind!r} cannot publish exactly once: leave it out, and let consumers know what comes"
                " again by the header id",
            )
        once = load(kind).exactly_once if kind else None
        if self.position.keep == "topic" and kind and (once is None or not once.serves_at_least_once):
            raise SectionError(("position", "keep"), f"a sink of kind {kind!r} has no topic for a position")
        for path, topic in (
            (("route", "topic"), self.route.topic),
            (("refusals", "dead_letter_topic"), self.refusals.dead_letter_topic),
        ):
            if topic in self.reserved_topics:
                raise SectionError(path, f"{topic!r} is where relays keep their positions (sink.positions_topic)")
        return self

    def _refuse_envelope(self, absent: frozenset[str]) -> None:
        envelope = self.route.envelope.envelope
        if envelope is None:
            return
        for role in sorted((envelope.needs | named(envelope.fields)[0]) & absent):
            raise SectionError(
                ("route", "envelope"), f"{envelope.kind} needs {role}, but outbox.columns.{role} is null"
            )

    @property
    def rules(self) -> tuple[Rule, ...]:
        """`route` and `routes` as the router takes them; empty where topic and envelope of `route` say all."""
        return tuple(rule for written in self._rules for rule in written.by_sink)

    @property
    def _rules(self) -> tuple[Rule, ...]:
        if self.routes:
            return tuple(
                self.route.below(each.enveloped(self.route.envelope, self.route.schema_)) for each in self.routes
            )
        rule = self.route.rule
        return (rule,) if rule.key or rule.set_headers or rule.schema or rule.sinks else ()

    @property
    def layout(self) -> contract.OutboxLayout:
        """Where outbox records come from."""
        layout = self.outbox.decoding
        if self.debezium is None:
            return layout
        columns = contract.Columns(**dict.fromkeys(contract.Columns._fields))
        roles = self.debezium.options.roles | {"type": self.debezium.event_type}
        return layout._replace(columns=columns._replace(**roles))

    @property
    def reserved_topics(self) -> frozenset[str]:
        """Topics that no event may go to, as addresses."""
        return sinks.reserved_topics(self.named_sinks)

    @property
    def named_sinks(self) -> dict[str, SinkSettings]:
        """By name; the only one has the name ""."""
        return self.sinks or ({} if self.sink is None else {"": self.sink})


def _raise(faults: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
    """All of them at once, if there are any."""
    errors = [
        InitErrorDetails(type="value_error", loc=path, input=None, ctx={"error": ValueError(text)})
        for path, text in faults
    ]
    if errors:
        raise ValidationError.from_exception_data("settings", errors)
