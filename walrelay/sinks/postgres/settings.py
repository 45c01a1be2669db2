"""The settings of the PostgreSQL sink."""

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from walrelay.identifiers import qualified_name
from walrelay.postgres.dsn import conninfo_fault
from walrelay.sinks.address import is_address_template
from walrelay.sinks.hosting.settings import HostedSettings
from walrelay.sinks.postgres.rows import Role


class TableColumns(BaseModel):
    """The columns that the parts of a message are written to; null: none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str | None = Field(default="id", min_length=1, description="The event's id.")
    topic: str | None = Field(default="topic", min_length=1, description="The topic.")
    key: str | None = Field(default="key", min_length=1, description="The key.")
    value: str | None = Field(
        default="value", min_length=1, description="Of any type that the value is a text of; or bytea."
    )
    headers: str | None = Field(
        default="headers", min_length=1, description="json or jsonb: an object of texts. null: headers are not stored."
    )
    timestamp: str | None = Field(
        default="committed_at", min_length=1, description="timestamptz: when the event committed."
    )

    @property
    def by_role(self) -> dict[Role, str]:
        return {role: column for role in Role if (column := getattr(self, role)) is not None}


class PostgresSettings(HostedSettings):
    """`kind: postgres`: a row for each message in a table of another database, in commit order."""

    dsn: SecretStr = Field(description="The database to write to, as a URL or keywords of libpq.")
    table: str = Field(
        "public.walrelay_events",
        description="The table, a template of `{topic}`, `{key}` and `{header.NAME}`: as in `outbox.table`.",
    )
    columns: TableColumns = Field(TableColumns(), description="The columns that the parts of a message are written to.")
    positions_table: str = Field(
        "public.walrelay_positions",
        description="delivery: exactly_once: the table that holds the relays' positions; made if missing.",
    )
    group_messages: int = Field(5_000, ge=1, description="Messages that are committed together, at most.")
    max_in_flight: int = Field(
        10_000, ge=1, description="Messages that may wait for the database before reading pauses."
    )

    @field_validator("dsn")
    @classmethod
    def _is_a_dsn(cls, dsn: SecretStr) -> SecretStr:
        if fault := conninfo_fault(dsn.get_secret_value()):
            raise ValueError(f"is not a connection string that libpq understands: {fault}")
        return dsn

    @field_validator("table")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        return is_address_template(text)

    @field_validator("positions_table")
    @classmethod
    def _is_a_table(cls, text: str) -> str:
        qualified_name(text)
        return text

    @field_validator("columns")
    @classmethod
    def _are_several(cls, columns: TableColumns) -> TableColumns:
        names = [*columns.by_role.values()]
        if not names or len({*names}) < len(names):
            raise ValueError("columns have names of their own, and there is at least one")
        return columns
