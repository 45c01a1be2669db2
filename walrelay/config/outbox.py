"""The outbox as it is written in the settings, and as the decoders take it."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from walrelay.config.presets import PresetName
from walrelay.config.values import Name, Section, SectionError, TableName
from walrelay.decode import contract
from walrelay.identifiers import qualified_name


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
