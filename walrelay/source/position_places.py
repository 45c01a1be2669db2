"""Places for a relay's own position: a file, or a table in the database itself."""

import os
from errno import EDQUOT, ENOSPC
from pathlib import Path

from walrelay.errors import Disconnected, Fatal, NotKept
from walrelay.lsn import LSN
from walrelay.model import Position, System
from walrelay.postgres.catalog import Catalog


class FilePositions:
    """A small JSON file that is replaced as a whole, so that it is never half written. For one instance."""

    def __init__(self, path: Path, slot: str) -> None:
        self._path, self._slot = path, slot

    def last(self) -> Position | None:
        try:
            position = Position.of_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError) as cause:
            raise Fatal(
                f"the position file {self._path} cannot be read: {cause}",
                hint="Nothing was changed. Restore the file; or remove it, and the relay begins where the slot stands.",
            ) from cause
        if position.slot != self._slot:
            raise Fatal(
                f"the position file {self._path} is of slot {position.slot!r}, not of {self._slot!r}",
                hint="Give each relay a file of its own: position.path.",
            )
        return position

    def keep(self, position: Position) -> LSN:
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            with beside.open("wb") as file:
                file.write(position.as_json())
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            _sync_directory(self._path.parent)
        except OSError as cause:
            why = f"the position file {self._path} cannot be written: {cause.strerror}"
            if cause.errno in (ENOSPC, EDQUOT):  # space may come back
                raise NotKept(why) from cause
            raise Fatal(
                why,
                hint="It belongs on a disk that outlives the process, in a directory that walrelay may write to.",
            ) from cause
        return position.lsn


class TablePositions:
    """One row of walrelay.positions, updated ten times a second at most. It is there for every instance; only the one
    whose walsender, `reader`, has the slot may write (None: whoever made the slot just now): one that was frozen would
    take its successor's position back.
    """

    def __init__(self, catalog: Catalog, slot: str, reader: int | None) -> None:
        self._catalog, self._slot, self._reader = catalog, slot, reader
        catalog.commits_survive()  # or a crash could take the row back, and not the slot, which is saved by itself
        if catalog.value("SELECT to_regclass('walrelay.positions')") is None:
            raise Fatal("there is no table walrelay.positions to keep the position in", hint="Run `walrelay init`.")

    def last(self) -> Position | None:
        rows = self._catalog.rows(
            "SELECT system_identifier, timeline, lsn::text, commit_lsn::text, ordinal, xmin_xid::text::int8"
            " FROM walrelay.positions WHERE slot_name = %s",
            self._slot,
        )
        if not rows:
            return None
        identifier, timeline, lsn, commit_lsn, ordinal, xmin = rows[0]  # which is in the history that it tells of
        return Position(System(identifier, timeline), self._slot, LSN.parse(lsn), LSN.parse(commit_lsn), ordinal, xmin)

    def keep(self, position: Position) -> LSN:
        written = self._catalog.rows(
            """
            INSERT INTO walrelay.positions AS p
                (slot_name, system_identifier, timeline, lsn, commit_lsn, ordinal, xmin_xid)
            SELECT slot_name, %s, %s, %s::pg_lsn, %s::pg_lsn, %s, %s::text::xid8
            FROM pg_replication_slots WHERE slot_name = %s AND active_pid IS NOT DISTINCT FROM %s::int4
            ON CONFLICT (slot_name) DO UPDATE SET (system_identifier, timeline, lsn, commit_lsn, ordinal, xmin_xid,
                kept_at) = (excluded.system_identifier, excluded.timeline, excluded.lsn, excluded.commit_lsn,
                excluded.ordinal, excluded.xmin_xid, now())
            RETURNING 1
            """,
            *(*position.system[:2], str(position.lsn), str(position.commit_lsn), position.ordinal, position.xmin),
            *(position.slot, self._reader),
        )
        if not written:
            raise Disconnected(f"slot {self._slot!r} is not read by this relay any more")
        return position.lsn


def _sync_directory(directory: Path) -> None:
    """Without it the file is safe but its name may not be."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
