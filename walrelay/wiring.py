"""One relay as a value (connection, slot, outbox, rules, sink, policy, limits), made once from the settings. The rooms
above see nothing else of them.
"""

from fnmatch import fnmatchcase
from pathlib import Path
from time import monotonic
from typing import Literal, NamedTuple

from walrelay.decode.contract import Columns, Decoder, OutboxLayout, Skips
from walrelay.decode.messages import AS_THEY_ARE
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.decode.records import BINARY_PRINTERS
from walrelay.decode.wal2json import Wal2jsonDecoder
from walrelay.errors import Fatal, Retryable
from walrelay.identifiers import identifier
from walrelay.model import Counting, RecordPosition, RelayPosition, System
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.history import server_history
from walrelay.postgres.slot_moves import take_row
from walrelay.publish import AnySinkHandle
from walrelay.route import Router
from walrelay.route.debezium import CatalogColumn, DebeziumRouter
from walrelay.route.rules import RuleRouter, Rules
from walrelay.source.contract import Positions
from walrelay.source.positions import FilePositions, TablePositions
from walrelay.source.slot_source import SlotReading
from walrelay.source.stream import Timing
from walrelay.supervise import Backoff
from walrelay.wire import wal2json
from walrelay.wire.commands import Options, pgoutput_options

_PATIENCE = 10.0  # seconds for a position to be taken


class SlotOptions(NamedTuple):
    """How the slot is made and read. `binary`: if the columns allow it. `check_interval` in seconds."""

    binary: bool = True
    wal2json_format: Literal[1, 2] = 2
    failover: bool = False
    timing: Timing = Timing()
    check_interval: float = 2.0


class Writers(NamedTuple):
    """What `walrelay init` gives to writers. `roles`: those that may write logical messages that are events."""

    roles: tuple[str, ...] = ()
    max_message_bytes: int = 1_000_000


class PositionPlace(NamedTuple):
    """Where the relay keeps its own position; `slot`: it has none. `path`: the file."""

    place: Literal["slot", "file", "table", "topic"] = "slot"
    path: Path = Path("walrelay.position")


class Marks(NamedTuple):
    """SQL: of which rows of the outbox the mark is missing, and the columns that are set once a row is published."""

    where: str
    set: str


Choice = Literal["stop", "dead_letter", "skip"]


class Policy(NamedTuple):
    """What happens to refused messages and to records that no rule routes. `table` and `topic` say where dead letters
    go; `topic` None: to none.
    """

    default: Choice = "stop"
    topics: tuple[tuple[str, Choice], ...] = ()
    attempts: int = 1
    block_key: bool = False
    table: bool = True
    topic: str | None = None

    def of(self, topic: str) -> Choice:
        """What to do about a refusal of `topic`; the first matching pattern counts. A refusal of the dead letters'
        topic stops the relay.
        """
        if topic == self.topic:
            return "stop"
        return next((choice for pattern, choice in self.topics if fnmatchcase(topic, pattern)), self.default)

    @property
    def only_stops(self) -> bool:
        return {self.default, *(choice for _, choice in self.topics)} == {"stop"}


class Limits(NamedTuple):
    """In seconds: how long reading may pause while the sink has no room, and how long a stop may take."""

    pause: float = 30.0
    shutdown: float = 25.0


class EventOptions(NamedTuple):
    """What the process keeps of the last events. `keep`: how many; 0: none. `payloads`: theirs too. `redact`: by
    patterns of topics, the paths whose values are null; without a path nothing of the payload is left.
    """

    keep: int = 1_000
    payloads: bool = False
    redact: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = ()


class RelayContact(NamedTuple):
    """What it takes to talk to a relay through its database. `shutdown`: seconds that a stop may take."""

    dsn: str
    slot: str
    shutdown: float = 25.0


class Wiring(NamedTuple):
    """A relay: one slot, one outbox, its sinks. `dsn` includes the password. `retention` in seconds; None: no
    clean-up. `run_id`: of this process, where messages name it.
    """

    dsn: str
    slot: str
    plugin: Literal["pgoutput", "wal2json"]
    publication: str | None  # None for wal2json, which uses none
    outbox: OutboxLayout
    rules: Rules
    sink: AnySinkHandle
    exactly_once: bool = False
    streaming: SlotOptions = SlotOptions()
    writers: Writers = Writers()
    position: PositionPlace = PositionPlace()
    policy: Policy = Policy()
    limits: Limits = Limits()
    backoff: Backoff = Backoff()
    retention: float | None = None
    run_id: str | None = None
    marks: Marks | None = None
    events: EventOptions = EventOptions()

    @property
    def contact(self) -> RelayContact:
        """The relay's, for commands that talk to it through its database."""
        return RelayContact(self.dsn, self.slot, self.limits.shutdown)

    @property
    def table(self) -> str:
        """The outbox table as quoted identifiers."""
        return f"{identifier(self.outbox.schema)}.{identifier(self.outbox.table)}"

    @property
    def needed(self) -> OutboxLayout:
        """The outbox with the columns that routing needs: others are not read, and may be missing."""
        roles, columns = self.rules.needed
        return only(self.outbox, roles)._replace(extra=tuple(columns))

    @property
    def streamed(self) -> OutboxLayout:
        """`needed`, and what dead letters are found by: the tenant, where it can be read."""
        needed = self.needed
        if self.policy.only_stops or not self.policy.table or needed.columns.tenant_id is not None:
            return needed
        columns = needed.columns._replace(tenant_id=self.outbox.columns.tenant_id)
        return needed._replace(columns=columns, optional=frozenset({"tenant_id"}))

    @property
    def shown(self) -> OutboxLayout:
        """The outbox with all its roles, and the columns that rules name; those roles that routing does not need may be
        missing in a row.
        """
        required = {role for role, column in self.needed.columns._asdict().items() if column}
        return self.outbox._replace(optional=frozenset(Columns._fields) - required, extra=self.needed.extra)

    def router(self, catalog: Catalog) -> Router | RuleRouter | DebeziumRouter:
        """Makes messages from records by the rules; Fatal where the table does not suit them."""
        if self.rules.debezium is None:
            return self.rules.router()
        columns = [
            CatalogColumn._make([*rest, None if labels is None else tuple(labels)])
            for *rest, labels in catalog.column_definitions(self.table)
        ]
        table = (self.outbox.schema, self.outbox.table)
        return DebeziumRouter(self.rules.debezium, columns, table, self.rules.reserved, self.run_id)

    @property
    def emit_columns(self) -> dict[str, str]:
        """The columns of the outbox by arguments of walrelay.emit."""
        columns = self.outbox.columns._asdict()
        return {role: column for role, column in columns.items() if column and role != "created_at"}

    @property
    def counting(self) -> Counting:
        """What counts as a record."""
        wal2json_plugin = f"wal2json, format {self.streaming.wal2json_format}"
        plugin = wal2json_plugin if self.plugin == "wal2json" else self.plugin
        return Counting(plugin, self.publication, self.table, self.outbox.prefix)

    @property
    def wants_binary(self) -> bool:
        """Only pgoutput has a binary mode."""
        return self.streaming.binary and self.plugin == "pgoutput"

    def binary_suits(self, catalog: Catalog) -> bool:
        """Whether binary mode is wanted and every needed column has a type that is read in it."""
        if not self.wants_binary:
            return False
        types = catalog.column_types(self.table)
        needed = self.needed
        return all(types.get(column) in BINARY_PRINTERS for column in (*needed.columns, *needed.extra) if column)

    def options(self, *, binary: bool) -> Options:
        """The plugin's options in START_REPLICATION."""
        if self.publication is None:
            return wal2json.options(self.streaming.wal2json_format, self.outbox.schema, self.outbox.table)
        return pgoutput_options(self.publication, binary=binary)

    def reading(self, *, binary: bool) -> SlotReading:
        """What is read from the slot, and how."""
        options, interval = self.options(binary=binary), self.streaming.check_interval
        return SlotReading(self.slot, self.publication, self.plugin, options, self.table, interval)

    def decoder(self, outbox: OutboxLayout, *, encoding: str, binary: bool, skips: Skips = frozenset()) -> Decoder:
        """The plugin's. `encoding`: the database's."""
        outbox = encoded(outbox, encoding)
        if self.plugin == "wal2json":
            return Wal2jsonDecoder(outbox, self.streaming.wal2json_format, skips=skips)
        return PgoutputDecoder(outbox, binary=binary, skips=skips)


def only(outbox: OutboxLayout, roles: set[str]) -> OutboxLayout:
    """The outbox without its other columns."""
    columns = {role: column if role in roles else None for role, column in outbox.columns._asdict().items()}
    return outbox._replace(columns=Columns(**columns))


def encoded(outbox: OutboxLayout, encoding: str) -> OutboxLayout:
    """The outbox in a database of that encoding."""
    if outbox.prefix is not None and not outbox.prefix.isascii() and encoding not in AS_THEY_ARE:
        raise Fatal(
            f"logical messages of the prefix {outbox.prefix!r} cannot be told from others: the server sends it in the"
            f" database's encoding, which is {encoding}",
            hint="Set outbox.messages.prefix to one of ASCII letters, or to null if no events are emitted that way.",
            page="server",
        )
    return outbox._replace(encoding=encoding)


def positions(wiring: Wiring, catalog: Catalog, system: System, reader: int | None = None) -> Positions | None:
    """Where it is kept; None with the slot's position alone. `reader`: the walsender of the relay that keeps it there:
    no other process may.
    """
    match wiring.position.place:
        case "file":
            return FilePositions(wiring.position.path, wiring.slot)
        case "table":
            return TablePositions(catalog, wiring.slot, reader)
        case "topic":
            return wiring.sink.open_positions(system, wiring.slot)
    return None


def begin_at(
    wiring: Wiring,
    catalog: Catalog,
    *,
    xmin: int = 0,
    inside: RecordPosition | None = None,
    recovered: bool = False,
) -> None:
    """Stores the position of a slot that was just made, or moved. The one that is kept is an earlier slot's: this slot
    would seem to have been moved. `xmin`: as in RelayPosition. `inside`: the first record to publish, if it is in the
    middle of a transaction. `recovered`: an operator has decided about everything from before the slot, so a position
    of another server (a dump was restored, or the cluster made again) is over as well.
    """
    take_row(catalog, wiring.slot, "")
    system, slot = catalog.system(), catalog.slot(wiring.slot)
    kept = positions(wiring, catalog, system)
    if (
        kept is None
        or slot is None
        or slot.confirmed_flush_lsn is None
        or not _is_ours(kept, system, recovered=recovered)
    ):
        return
    here = server_history(wiring.dsn, catalog).system  # includes where its timeline began
    wanted = RelayPosition(here, slot.name, slot.confirmed_flush_lsn, xmin=xmin)
    if inside is not None and inside.ordinal:
        wanted = wanted._replace(commit_lsn=inside.commit_lsn, ordinal=inside.ordinal, counted=wiring.counting)
    deadline = monotonic() + _PATIENCE
    while kept.keep(wanted) < wanted.lsn:
        if monotonic() > deadline:
            raise Retryable(f"the relay's own position was not taken by the {wiring.position.place} in {_PATIENCE:g} s")


def _is_ours(kept: Positions, system: System, *, recovered: bool) -> bool:
    """A position of another server, or an unreadable one, stays: the relay refuses it, and says what to do."""
    try:
        before = kept.last()
    except Fatal:
        return False
    return before is None or recovered or before.system.identifier == system.identifier
