"""Servers that crash and are promoted between any two questions, and connections that end on any of them.

What drives them is the product's own way from connecting to streaming (`walrelay.relay.run` and all below it); only
the two connections, the lead's lock and the places of positions are played here, as PostgreSQL plays them.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, Self
from unittest.mock import Mock

from tests import pgoutput_encoder as encoder
from walrelay.errors import Disconnected, Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import RelayPosition, System
from walrelay.postgres.catalog import Slot
from walrelay.postgres.connect import Backend
from walrelay.postgres.failures import is_a_standby
from walrelay.postgres.history import timeline_start
from walrelay.postgres.publications import PublishedTable
from walrelay.wire.frames import keepalive, xlogdata

SLOT = "orders"
_RECORD = 0x38  # bytes of WAL that an entry takes
_COLUMNS = [(name, 25) for name in ("id", "aggregate_type", "aggregate_id", "type", "payload", "headers", "topic")]


class Entry(NamedTuple):
    """A transaction: an event, or the row of a position; without either other WAL. `promotion`: the last before it."""

    start: LSN
    event: str = ""
    row: RelayPosition | None = None
    promotion: int = 0

    @property
    def end(self) -> LSN:
        return LSN(self.start + _RECORD)


class Server:
    """A server with the slot; `boot` counts its starts, which end all connections. Up for as long as it is not None."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.timeline, self.branches = 1, dict[int, LSN]()
        self.promotion = 0
        self.wal = [Entry(LSN(0x1000))]
        self.standby = True
        self.up, self.boot = True, 0
        self.confirmed = self.checkpointed = self.end
        self.backends = set[Backend]()
        self.leader: FakeStream | None = None
        self.reader: FakeStream | None = None

    @property
    def end(self) -> LSN:
        return self.wal[-1].end

    @property
    def system(self) -> System:
        return System("7301", self.timeline, timeline_start(self.timeline, self.branches))

    @property
    def events(self) -> list[str]:
        return [entry.event for entry in self.wal if entry.event]

    def write(self, event: str = "", row: RelayPosition | None = None) -> None:
        self.wal.append(Entry(self.end, event, row, self.promotion))

    def starts_anew(self, *, crashed: bool = True) -> None:
        """Every connection is gone, and with a crash what was confirmed since the last checkpoint."""
        self.boot += 1
        self.backends.clear()
        self.leader = self.reader = None
        if crashed:
            self.confirmed = self.checkpointed

    def promote(self, timeline: int, promotion: int) -> None:
        """Connections go on. Who had not got to where a timeline branched off leaves the one before it."""
        before = {earlier: lsn for earlier, lsn in self.branches.items() if lsn <= self.end}
        left = min((earlier for earlier in self.branches if earlier not in before), default=self.timeline)
        self.branches = {**before, left: self.end}
        self.standby, self.timeline, self.promotion = False, timeline, promotion
        self.write()

    def follow(self, primary: "Server") -> None:
        """As a standby of `primary`, made again from it if it went another way."""
        if self.wal != primary.wal[: len(self.wal)] or not self.standby:
            self.starts_anew(crashed=False)
            self.wal, self.confirmed = list(primary.wal), primary.confirmed
        self.standby, self.up = True, True
        self.timeline, self.branches = primary.timeline, dict(primary.branches)
        self.promotion = primary.promotion
        self.checkpointed = self.confirmed

    def told(self, lsn: LSN, *, lasts: bool) -> None:
        """PostgreSQL believes any position."""
        self.confirmed = max(self.confirmed, lsn)
        if lasts:
            self.checkpointed = self.confirmed


class Questions:
    """What a connection needs of the world: `step` lets anything happen, `route` says where a new connection ends."""

    step: Callable[[], None]
    route: Callable[[], Server]
    chance: Callable[[float], bool]
    wait: Callable[[float], None]
    topic: RelayPosition | None = None
    topic_owner = 0
    file: RelayPosition | None = None
    pids = 0


class _Connection:
    """Ends on one server, and is gone when that is."""

    def __init__(self, world: Questions) -> None:
        world.step()
        self._world, self.server = world, world.route()
        if not self.server.up:
            raise Disconnected("nobody listens")
        world.pids += 1
        # Servers in containers have the same small PIDs, and here often so.
        self.backend = Backend(world.pids % 3, world.pids, self.server.name)
        self._boot, self._open = self.server.boot, True
        self.server.backends.add(self.backend)

    def asked(self) -> Server:
        self._world.step()
        if not self._open or not self.server.up or self.server.boot != self._boot:
            raise Disconnected("the connection broke")
        return self.server

    def close(self) -> None:
        self._open = False
        if self.server.boot == self._boot:
            self.server.backends.discard(self.backend)


class FakeStream(_Connection):
    """In place of `walrelay.source.stream.Stream`."""

    start, heartbeat = ZERO, 10.0

    @property
    def connection(self) -> Self:
        return self

    def wake_by(self, descriptor: int | None) -> None:
        """The fake brokers have none."""

    @property
    def pid(self) -> int:
        return self.backend.pid

    def refuse_standby(self) -> None:
        if self.asked().standby:
            raise is_a_standby()

    def identify(self) -> System:
        return self.asked().system

    def branches(self, timeline: int) -> dict[int, LSN]:
        return dict(self.asked().branches) if timeline > 1 else {}

    def leads(self) -> bool:
        """The advisory lock, which a standby gives as well."""
        server = self.asked()
        server.leader = server.leader or self
        return server.leader is self

    def start_stream(self, start: LSN, options: object, *, confirmed: LSN | None = None) -> None:
        server = self.asked()
        assert not server.standby, "a relay streams from a standby"
        if server.reader is not None:
            raise Retryable("the slot is in use", retry_within=1.0)
        server.reader, self.start = self, start
        self._told = start if confirmed is None else confirmed
        self._frames = _frames(server, max(start, server.confirmed))
        server.told(self._told, lasts=self._world.chance(0.2))

    def read(self, timeout: float) -> list[bytes]:
        server = self.asked()
        frames = [frame for _ in range(4) if (frame := next(self._frames, None)) is not None]
        if not frames:
            self._world.wait(timeout)
            if self._world.chance(0.5):
                frames.append(keepalive(server.end))
        return frames

    def confirm(self, lsn: LSN) -> bool:
        server = self.asked()
        if lsn <= self._told or not self._world.chance(0.7):
            return False
        server.told(lsn, lasts=self._world.chance(0.2))
        self._told = lsn
        return True

    def pause(self, stop: Callable[[], bool]) -> None:
        server = self.asked()
        server.reader = None if server.reader is self else server.reader

    def command(self, text: str) -> None:
        self.asked()

    def leave(self, lsn: LSN) -> None:
        self.asked().told(lsn, lasts=self._world.chance(0.2))
        self.close()

    def close(self) -> None:
        super().close()
        self.server.leader = None if self.server.leader is self else self.server.leader
        self.server.reader = None if self.server.reader is self else self.server.reader


class FakeCatalog(_Connection):
    """In place of `walrelay.postgres.catalog.Catalog`; what init noted and settings name is not there."""

    database, usable = "db", True  # as far as the client knows
    connection = Mock()  # which has a name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refuse_another_server(self, other: Backend) -> None:
        if other not in self.asked().backends:
            raise Disconnected("the DSN leads to two servers")

    def refuse_synchronous(self, walsender_pid: int) -> None:
        if walsender_pid not in {backend.pid for backend in self.asked().backends}:
            raise Disconnected("the stream is gone")

    def current_lsn(self) -> LSN:
        return self._writing().end

    def horizon(self) -> tuple[int, LSN]:
        return 700, self._writing().end

    def slot(self, name: str) -> Slot:
        server = self.asked()
        pid = server.reader.pid if server.reader is not None else None
        return _slot(server.confirmed, pid)

    def published(self, publication: str, table: str) -> PublishedTable:
        self.asked()
        return PublishedTable(exists=True, oid=16400, partitioned=False, covered=True, inserts=True, via_root=False)

    def value(self, query: str, *parameters: Any) -> None:
        self.asked()

    def rows(self, query: str, *parameters: Any) -> list[Any]:
        self.asked()
        return []

    def server_encoding(self) -> str:
        self.asked()
        return "UTF8"

    def column_types(self, table: str) -> dict[str, int]:
        self.asked()
        return {}

    def _writing(self) -> Server:
        server = self.asked()
        if server.standby:
            raise Disconnected("recovery is in progress")
        return server


class Place:
    """Implements `walrelay.source.contract.Positions`: in the file of one instance, the database, or a topic."""

    def __init__(
        self, world: Questions, keep: Literal["file", "table", "topic"], catalog: FakeCatalog, reader: int
    ) -> None:
        self._world, self._keep, self._catalog, self._reader = world, keep, catalog, reader
        world.topic_owner += 1
        self._owner = world.topic_owner

    def fence(self) -> bool:
        return True

    def trouble(self) -> str:
        return ""

    def last(self) -> RelayPosition | None:
        match self._keep:
            case "file":
                return self._world.file
            case "topic":
                return self._world.topic
        rows = [entry.row for entry in self._catalog.asked().wal if entry.row is not None]
        return rows[-1] if rows else None

    def keep(self, position: RelayPosition) -> LSN:
        match self._keep:
            case "file":
                self._world.file = position
            case "topic":
                self._world.step()
                if self._owner != self._world.topic_owner:
                    raise Retryable("fenced off")
                self._world.topic = position
            case _:
                server = self._catalog.asked()
                if server.reader is None or server.reader.pid != self._reader:
                    raise Disconnected("the slot is not read by this relay any more")
                server.write(row=position)
        return position.lsn


def _frames(server: Server, start: LSN) -> Iterator[bytes | None]:
    """None where there is no more for now."""
    taken, announced = 0, False
    while True:
        if taken == len(server.wal):
            yield None
            continue
        entry = server.wal[taken]
        taken += 1
        if not entry.event or entry.start < start:
            continue
        yield xlogdata(entry.start, entry.start, encoder.begin(entry.start))
        if not announced:
            announced = True
            yield xlogdata(0, 0, encoder.relation(16400, "public", "outbox", _COLUMNS))
        text = entry.event.encode()
        values = [text, b"order", b"key", b"placed", b'"%b"' % text, None, None]
        yield xlogdata(entry.start, entry.start, encoder.insert(16400, values))
        yield xlogdata(entry.end, entry.end, encoder.commit(entry.start, entry.end))


def _slot(confirmed: LSN, pid: int | None) -> Slot:
    return Slot(SLOT, "pgoutput", "db", pid, ZERO, confirmed, "reserved", None, None, False, False)
