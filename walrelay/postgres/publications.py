"""How a publication has the outbox, and why rows of it may not come through."""

from typing import NamedTuple

KINDS = {
    "r": "a table",
    "p": "a partitioned table",
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "i": "an index",
    "I": "a partitioned index",
    "c": "a composite type",
}
REPLICATED_KINDS = (KINDS["r"], KINDS["p"])


class PublicationState(NamedTuple):
    """How the outbox was published: the table's OID, the OID of the publication's entry for it (None: the publication
    has all tables), and a stamp of the publication.
    """

    table: int | None
    entry: int | None
    stamp: str

    def same(self, now: "PublicationState") -> bool:
        """Whether nothing was altered until `now`. (Earlier versions of walrelay noted no stamp.)"""
        return (self.table, self.entry) == (now.table, now.entry) and self.stamp in ("", now.stamp)


class PublishedTable(NamedTuple):
    """How the publication has the outbox table. `oid` None: there is no such table.

    A change gives `entry` or `stamp` another value, also a change that was reverted.
    """

    exists: bool  # the publication
    oid: int | None
    partitioned: bool
    covered: bool
    inserts: bool
    via_root: bool
    entry: int | None = None
    stamp: str = ""
    kind: str = "a table"  # for people; only this one and "a partitioned table" are replicated
    not_logged: str = ""  # the table, or the first of its partitions, whose rows are not in the WAL
    inherited: bool = False  # other tables inherit from it, or did

    @property
    def unwritten(self) -> str:
        """Why not all rows are in the WAL; empty if they are."""
        if self.oid is not None and self.kind not in REPLICATED_KINDS:
            return f"it is {self.kind}, which is not replicated"
        if self.not_logged:
            return f"the rows of {self.not_logged} are not in the WAL: it is unlogged, temporary or a foreign table"
        return ""

    @property
    def seen(self) -> PublicationState:
        return PublicationState(self.oid, self.entry, self.stamp)

    def since(self, seen: PublicationState, publication: str, table: str) -> str:
        """Why rows written since `seen` may not have come through, although they do now; empty if all came."""
        if self.oid != seen.table:
            return f"table {table} was dropped and created again (OID {seen.table}, now {self.oid})"
        if self.entry != seen.entry:
            way = "or is published in another way now (row filter, column list, all tables)"
            return f"table {table} left publication {publication!r} and came back, {way}"
        return ""

    def fault(self, publication: str, table: str) -> str:
        """Why rows of the table may not come through the publication; empty if they do."""
        if not self.exists:
            return f"publication {publication!r} does not exist"
        if self.oid is None:
            return f"table {table} does not exist"
        if self.partitioned and not self.via_root:
            return f"publication {publication!r} has the partitions of {table} under their own names"
        if not self.covered:
            return f"table {table} is not in publication {publication!r}"
        if not self.inserts:
            return f"publication {publication!r} does not publish inserts"
        return ""
