"""The settings as frozen models, in the order the data flows. The docstring of each setting is its documentation.

All settings stand in one module, which is read from top to bottom as the settings file is.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from walrelay.config import presets, sinks
from walrelay.config.debezium import DebeziumSettings
from walrelay.config.presets import PresetName
from walrelay.config.routes import Routes, RouteSettings
from walrelay.config.schemas import SchemaRegistrySettings
from walrelay.config.sinks import SinkName, some
from walrelay.config.values import (
    ConnectionString,
    Duration,
    FormatVersion,
    Name,
    Seconds,
    Section,
    SectionError,
    SinkSettings,
    SlotName,
    TableName,
)
from walrelay.decode import contract
from walrelay.identifiers import qualified_name
from walrelay.publish import load
from walrelay.route import TopicTemplate
from walrelay.route.rules import Rule, faults
from walrelay.route.rules.fields import named


class SourceSettings(Section):
    """Where the write-ahead log is read: one replication slot of one database."""

    dsn: ConnectionString
    """The database, as a libpq URL or keyword string. The role needs REPLICATION. A secret: take it from
    `${DATABASE_URL}` or `file:/run/secrets/dsn`."""

    slot: SlotName = "walrelay"
    """The logical replication slot. It holds the position; one relay at a time reads it."""

    publication: Name = "walrelay"
    """The publication that names the outbox table."""

    plugin: Literal["pgoutput", "wal2json"] = "pgoutput"
    """The output plugin. pgoutput is part of PostgreSQL; wal2json must be installed and allowed on the server."""

    binary: bool = True
    """pgoutput sends values in binary, which is less work for the server. wal2json ignores this setting."""

    wal2json_format: FormatVersion = 2
    """wal2json's format-version. 1 is faster, but puts a whole transaction, up to 1 GB, into one message."""

    failover: bool = False
    """PostgreSQL 17 and later: the slot is created to be synchronised to standbys, so that it survives a failover."""

    confirm_interval: Seconds = 0.1
    """How often, at most, progress is confirmed to PostgreSQL. After a crash, messages that were durable but not yet
    confirmed are published again, and messages in flight may be."""

    pause_limit: Seconds = 30
    """How long reading may pause while the sink has no room. After that the relay closes the replication stream until
    there is room again, because a walsender that cannot write delays the server's checkpoints."""

    receive_timeout: Seconds = 60
    """Silence after which the connection counts as dead. The server sends a keepalive at half of its
    wal_sender_timeout, so keep this above that half."""

    publication_check_interval: Seconds = 2
    """How often, at most, the relay checks that the outbox is still published, while only other tables write WAL:
    one catalog query. Without it a table that left the publication would look like an outbox without events."""


class ColumnsSettings(Section):
    """Which column of the outbox table plays which role; `null`: the table has no such column."""

    id: Name = "id"
    """The event's id, by which consumers recognise a repetition. Required."""

    aggregate_type: Name | None = "aggregate_type"
    """The kind of thing the event is about; by default the topic is made from it."""

    aggregate_id: Name | None = "aggregate_id"
    """The id of the thing that the event is about. It is the message's key, so that the events of one thing stay in
    order."""

    type: Name | None = "type"
    """What happened, as in `OrderPlaced`."""

    payload: Name = "payload"
    """The message's value. Required."""

    headers: Name | None = "headers"
    """A JSON object that becomes message headers."""

    topic: Name | None = "topic"
    """The topic of this row; where it is NULL, `route.topic` decides."""

    tenant_id: Name | None = "tenant_id"
    """The tenant that the event belongs to."""

    created_at: Name | None = "created_at"
    """When the application wrote the event."""

    @model_validator(mode="after")
    def _bytes_or_text(self) -> Self:
        """payload and headers are read as bytes, the other roles as text, and a column only once."""
        for role in ("payload", "headers"):
            for other, column in self:
                if column == getattr(self, role) is not None and other not in ("payload", "headers"):
                    raise SectionError((other,), f"column {column!r} cannot be the {role} and the {other} both")
        return self


class MessagesSettings(Section):
    """Outbox records without a table: logical messages written with `pg_logical_emit_message`.

    PostgreSQL lets every role write them, without a right to any table: so they are off by default."""

    prefix: Annotated[str, Field(min_length=1)] | None = None
    """The prefix of the logical messages that are outbox records; `null`: no logical message is one. `writers` says who
    may write them."""

    writers: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """The roles that may write logical messages. `init` takes the right from all others, which needs a superuser;
    `[public]` leaves it to every role that can connect, and with it the right to publish to any topic."""

    non_transactional: Literal["stop", "skip"] = "stop"
    """What to do with a message that has the prefix but was sent outside a transaction: what it reports may have been
    rolled back."""


class MarkSettings(Section):
    """Columns of the outbox that are to say that a row is published, for dashboards and jobs that read them. walrelay
    does not. The leading relay sets them behind the confirmation, in batches; `walrelay docs cleanup` explains it."""

    where: Annotated[str, Field(min_length=1)]
    """An SQL condition: which rows have no mark, as in `published = false`. Let an index have it as its condition."""

    set: Annotated[str, Field(min_length=1)]
    """What UPDATE sets, as in `published = true, processed_at = now()`."""


class OutboxSettings(Section):
    """Which committed rows are outbox records."""

    preset: PresetName = "walrelay"
    """The kind of outbox: settings for the table of another worker, below those of this file. `walrelay config example
    --preset NAME` prints them, `walrelay docs presets` explains them, and `walrelay init --adopt TABLE` finds the one
    that suits a table. walrelay: the table that `init` makes."""

    table: TableName = "public.outbox"
    """`schema.table`, or `table` for one in `public`. Capitals and spaces as in SQL: `'"My Schema"."Out box"'`."""

    columns: ColumnsSettings = ColumnsSettings()
    messages: MessagesSettings = MessagesSettings()

    mark_published: MarkSettings | None = None
    """null: published rows are not marked."""

    max_message_bytes: Annotated[int, Field(ge=1024, json_schema_extra={"unit": "bytes"})] = 1_000_000
    """The largest event, with its headers, that walrelay.emit accepts. Set it to what the broker takes; `init` writes
    it into the function."""

    @property
    def decoding(self) -> contract.OutboxLayout:
        """The section as the decoders take it."""
        schema, table = qualified_name(self.table)
        return contract.OutboxLayout(
            schema=schema,
            table=table,
            columns=contract.Columns(**self.columns.model_dump()),
            prefix=self.messages.prefix,
            skip_non_transactional=self.messages.non_transactional == "skip",
        )


class PositionSettings(Section):
    """Where the relay keeps a position of its own. The slot's is set back when PostgreSQL crashes (and, before 17, when
    it is restarted), and what was published since its last checkpoint would be repeated. In exactly-once mode
    the sink keeps the position, and this section is ignored."""

    keep: Literal["slot", "file", "table", "topic"] = "slot"
    """slot: only in the slot. file: a small file, for a relay with one instance. table: a row of
    `walrelay.positions`, updated ten times a second at most while events come. topic: a record in the sink's
    `positions_topic`, written just as often. Table and topic suit any number of instances."""

    path: Annotated[str, Field(min_length=1)] = "walrelay.position"
    """The file of `keep: file`, on a disk that outlives the process."""


Policy = Literal["stop", "dead_letter", "skip"]


class RefusalSettings(Section):
    """What becomes of a message that the broker will never take, of a record that no rule routes, and of a logical
    message that cannot be read. Where topics are patterns, `*` stands for any characters. `walrelay docs dead-letters`
    explains it in full."""

    policy: Policy = "stop"
    """stop: the relay ends and names the record. dead_letter: the record is kept in full, and the relay goes on.
    skip: like dead_letter, but the dead letter is closed at once and does not wait for an operator."""

    topics: dict[str, Policy] = Field(default_factory=dict)
    """A policy for each pattern of topics, as in `outbox.event.audit*: skip`. The first pattern that matches counts.
    What cannot be read has no topic: `policy` applies."""

    attempts: Annotated[int, Field(ge=1)] = 1
    """How many times a message is offered before the policy applies. The pauses in between are those of `retry`;
    meanwhile nothing else is published, to keep the order."""

    block_key: bool = False
    """true: later messages of the same topic and key wait behind a dead letter, as dead letters themselves, so that
    replaying keeps the order of the key. false: they are published."""

    dead_letters: Literal["table", "topic", "both"] = "table"
    """Where dead letters go: the table walrelay.dead_letters, the topic below, or both. Skipped and blocked ones
    are in the table only."""

    dead_letter_topic: Annotated[str, Field(min_length=1)] = "outbox.dead_letters"
    """The topic for dead letters. A refusal of this topic stops the relay."""

    @model_validator(mode="after")
    def _in_the_table(self) -> Self:
        if self.dead_letters == "topic" and (self.block_key or "skip" in {self.policy, *self.topics.values()}):
            raise SectionError(
                ("dead_letters",), "block_key and the policy skip need the table: set dead_letters to table or both"
            )
        return self


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
    """at_least_once: after a crash, what was durable but not yet confirmed is published again. exactly_once: whole
    transactions are published in Kafka transactions together with their position; consumers need `isolation.level:
    read_committed`."""

    position: PositionSettings = PositionSettings()

    retention: Duration | None = None
    """How long a row stays in the outbox, as in `7d` or `12h`. The leading relay then deletes older rows that
    are published and confirmed, in small batches, and drops whole days of a partitioned outbox. null: nothing is
    deleted. `walrelay docs cleanup` explains it in full."""

    retry: RetrySettings = RetrySettings()

    shutdown_timeout: Annotated[float, Field(ge=0, allow_inf_nan=False, json_schema_extra={"unit": "seconds"})] = 25
    """How long a stop waits for the messages in flight; what is not durable by then is published again at the
    next start. Keep it below the 30 seconds that Kubernetes gives a pod."""

    log: LogSettings = LogSettings()

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
            raise SectionError(("delivery",), f"a sink of kind {kind!r} cannot publish exactly once")
        if self.position.keep == "topic" and kind and load(kind).exactly_once is None:
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
