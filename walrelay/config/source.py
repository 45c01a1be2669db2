"""Where a relay reads, and where it keeps how far it got, as they are written in the settings."""

from typing import Annotated, Literal

from pydantic import Field

from walrelay.config.values import ConnectionString, FormatVersion, Name, Seconds, Section, SlotName


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
