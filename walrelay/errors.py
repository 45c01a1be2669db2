"""Errors by consequence: restart from the confirmed position, or an operator must act."""

from typing import Literal

from walrelay.lsn import LSN

RunbookPage = Literal[
    "slot-lost",
    "slot-moved",
    "history",
    "not-published",
    "unfinished",
    "position",
    "unreadable",
    "unroutable",
    "refused",
    "settings",
    "rights",
    "server",
    "sink",
    "listening",
    "protocol",
    "bug",
    "ended",
    "others",
]
"""What to do about a Fatal: a section of the page `runbook`."""


class WalrelayError(Exception):
    """Any error that walrelay raises on purpose; its text says what happened and where. `hint` tells the operator what
    to do, best as a command to paste; empty if nothing is to be done.
    """

    hint: str = ""


class Retryable(WalrelayError):
    """The run is over, and a new one from the confirmed position may well succeed.

    `retry_within` caps the pause before the next try, in seconds, where waiting longer gains nothing: a slot that
    another process holds should be taken over soon after its release.
    """

    def __init__(self, message: str, *, retry_within: float | None = None) -> None:
        super().__init__(message)
        self.retry_within = retry_within


class Disconnected(Retryable):
    """The connection to PostgreSQL is gone. The sink is not to blame: what it holds may still be delivered."""


class NotConnected(Disconnected):
    """No connection could be made. `final`: the server refused this role, password or database. That may pass during a
    run, as when passwords are changed, but at the first connection it is a mistake.
    """

    def __init__(self, message: str, *, hint: str = "", final: bool = False) -> None:
        super().__init__(message)
        self.hint, self.final = hint, final


class NotServing(Retryable):
    """PostgreSQL answers, but is not, or not yet, what a relay can read from."""


class NotKept(Retryable):
    """The relay's own position cannot be written just now. What it covers is published, and safe."""


class Superseded(Retryable):
    """A later run of the slot publishes now. A sink does not connect again for that: its run is over."""


class Waiting(Retryable):
    """Nothing is wrong: another process has the slot, and will release it. The run did nothing yet."""


class StartAnew(Retryable):
    """The run ends by choice and in order: what is settled is confirmed, and the next run begins at once."""

    def __init__(self, message: str, *, retry_within: float | None = 0.001) -> None:
        super().__init__(message, retry_within=retry_within)


class RegistryAway(Retryable):
    """The registry that has a record's schema cannot be asked just now. Nothing overtakes the record meanwhile."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, retry_within=5.0)
        self.hint = hint


class NoRoom(Retryable):
    """The sink has had no room for a while, so the stream is closed. The sink is kept while the lead can be kept."""


class Fatal(WalrelayError):
    """No retry can cure it. `page`: what the operator reads about it."""

    page: RunbookPage = "others"

    def __init__(self, message: str, *, hint: str = "", page: RunbookPage | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if page is not None:
            self.page = page


class ProtocolError(Fatal):
    """The server sent something that the replication protocol does not allow, at `lsn` where it is known."""

    page = "protocol"

    def __init__(self, message: str, *, lsn: LSN | None = None, hint: str = "") -> None:
        where = f" (at {lsn})" if lsn else ""
        super().__init__(
            f"{message}{where}",
            hint=hint
            or "Nothing was confirmed past this point. Please report it together with the output of"
            " `walrelay tail --limit 1`.",
        )
        self.lsn = lsn


class SinkError(Fatal):
    """The sink as a whole cannot do its work, or the registry that its messages need."""

    page = "sink"


class Undecodable(Fatal):
    """A committed row that cannot be read as an outbox record with these settings; text says which and why."""

    page = "unreadable"


AS_IT_WAS_WRITTEN = (
    "The event is in the WAL as it was written: changing the row does not help. To make it a dead letter:"
    " `refusals: {policy: dead_letter}` in the settings, start walrelay again, then `walrelay dlq list`."
)
"""The hint for what a message holds, and nothing but another event can hold instead."""

AS_THE_TABLE_HAS_IT = (
    "The event was read from the table: correct the row there, or delete it, and run the same command again; it goes on"
    " where it stopped."
)
"""The same where rows are published from the table."""


START_AGAIN = "Then start walrelay again: nothing is lost."
"""The end of a hint for what an operator cures at the broker."""

RUN_AGAIN = "Then run the same command again: it goes on where it stopped."
"""The same for a command that publishes rows from the table."""


class Unroutable(Fatal):
    """A record for which the routing rules yield no message."""

    page = "unroutable"


class Refused(Fatal):
    """The broker will not take a message, however often it is offered.

    `place`: commit LSN and ordinal of its record; None where the message does not say.
    """

    page = "refused"

    def __init__(self, message: str, *, hint: str = "", place: tuple[LSN, int] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.place = place


class SlotGivenUp(Fatal):
    """A paused relay dropped its slot, as the pause said, because it retained too much WAL."""

    page = "slot-lost"


class StopAhead(StartAnew):
    """A message was `refused` while others were under way: the next run publishes those, and ends ahead of it."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(f"the messages before it are published first: {refused}")
        self.refused = refused


class SettingsError(Fatal):
    """The settings cannot be used; every problem is listed, with its line where there is one."""

    page = "settings"


class LedgerError(Fatal):
    """A stage broke its promise towards the ledger. A bug, never a condition: the relay must not go on."""

    page = "bug"

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint="This is a bug in walrelay. Nothing that may not have been published was confirmed, and a restart goes"
            " on from there. Please report it, with the log.",
        )
