"""What a peer's module owes the runner: how it is installed, configured, started. The runner measures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

Variant = Literal["documented", "tuned"]
"""As its documentation sets it up; or tuned to walrelay's promises: acks=all, at most 5 ms of batching."""


class NotRun(Exception):
    """This peer, or this variant, cannot run on this machine; the message is the reason that the report gives."""


class Site(NamedTuple):
    """Where a peer works. One site a measurement: nothing is left of the one before."""

    host: str
    port: int
    user: str  # a superuser; the server trusts it, and takes the password where a client insists on one
    password: str
    database: str
    bootstrap_servers: str
    topic: str  # made beforehand, with several partitions
    directory: Path  # for configuration and state; survives a kill and the restart after it
    http_port: int  # free, for a peer that must listen

    @property
    def dsn(self) -> str:
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{self.database}"


class Outbox(NamedTuple):
    """The table that a peer reads. The rows are the same for all; most peers read walrelay's own table.

    insert: follows `WITH rows(id, key, payload) AS (...)`, id a uuid, key a text, payload jsonb, one event a row:
    "INSERT INTO outbox (id, ...) SELECT id, ... FROM rows". The runner recognises an event by the number in its
    payload, `"number": 17`, wherever a peer puts that in its message, escaped or not.
    """

    ddl: str
    insert: str


class Command(NamedTuple):
    """A process to start in the foreground. SIGTERM ends it; what it starts itself is in its process group."""

    argv: Sequence[str | Path]
    environment: Mapping[str, str]
    directory: Path


class Peer(Protocol):
    """One tool. `install` comes first; then, for each measurement, `outbox`, `prepare`, `command`."""

    name: str

    def install(self, cache: Path) -> str:
        """Puts it below `cache`, if it is not there yet; returns its version. NotRun where that cannot be done."""
        ...

    def outbox(self, variant: Variant) -> Outbox:
        """The table; made by the runner in an empty database."""
        ...

    def prepare(self, site: Site, variant: Variant) -> None:
        """Configuration files, and what has to be in the database before the first row: slot, publication, trigger.

        What is inserted from then on has to be published, also while the tool does not run yet.
        """
        ...

    def command(self, site: Site, variant: Variant) -> Command:
        """How it is started, for the first time and again after a kill."""
        ...
