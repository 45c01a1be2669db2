"""What `walrelay tail` shows: the records that wait in the slot, or that are committed from now on, as lines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from math import inf
from threading import Event
from time import monotonic
from typing import Literal, Protocol

from walrelay.decode.lines import LineReader, PluginLineReader, RecordLineReader, RenderedLineReader, TailLine
from walrelay.errors import Fatal
from walrelay.lsn import ZERO
from walrelay.model import Finding, Skipped
from walrelay.postgres.catalog import Catalog
from walrelay.source.peek import Peek, temporary_stream
from walrelay.source.slot_source import usable_slot
from walrelay.wire import wal2json
from walrelay.wire.commands import Options
from walrelay.wiring import Wiring, encoded

_ENOUGH = 1 << 16  # bytes that are worth a write
_PATIENCE = 0.25  # seconds within which a stop, a keepalive or a reader that left is noticed

Form = Literal["walrelay", "wal2json"]


class LineOutput(Protocol):
    """Lines that wait for a reader; its length is in bytes."""

    def add(self, line: bytes) -> None: ...

    def __len__(self) -> int: ...

    def drain(self, patience: float | None) -> bool:
        """Writes as long as the reader takes something within so many seconds; returns whether nothing is left."""
        ...


class Tail:
    """Prints the records of one outbox in that form, up to `limit` (0: all); `note` gets what is left out, and why."""

    def __init__(
        self, wiring: Wiring, catalog: Catalog, form: Form, output: LineOutput, limit: int, note: Callable[[str], None]
    ) -> None:
        self._wiring, self._catalog, self._form, self._output, self._note = wiring, catalog, form, output, note
        self._options, self._lines = _lines(wiring, catalog, form)
        self._limit, self._left = limit, limit or inf
        self._position = ZERO  # the end of the last transaction
        self.done = False  # the limit was reached

    def remarks(self, told: Iterable[Finding]) -> Iterator[str]:
        """Why lines may be missing or unexpected; `told`: the doctor's findings."""
        for finding in told:
            if self._form == "wal2json" and finding.subject == "columns":
                continue  # its lines have all columns
            yield f"rows may be missing: {finding.detail}; {finding.fix}"
        name, table = self._wiring.publication, self._wiring.table
        if self._form == "wal2json" and name is not None and not self._catalog.published(name, table).fault(name, ""):
            yield from wal2json_differences(self._catalog, name, table)

    def waiting(self) -> None:
        """Prints what waits in the slot, and leaves the slot where it is."""
        wiring, catalog = self._wiring, self._catalog
        usable_slot(catalog.slot(wiring.slot), wiring.slot, wiring.plugin, catalog.database)
        peek = Peek(wiring.dsn, catalog, wiring.slot, wiring.publication, self._options, self._note)
        with closing(peek.frames(self._limit or None)) as frames:
            try:
                for frame in frames:
                    self._take(frame)
                    if self.done:
                        return
                    if len(self._output) > _ENOUGH:
                        self._output.drain(None)
            finally:
                self._output.drain(None)  # records before an error are printed before it

    def follow(self, stop: Event) -> None:
        """Prints what is committed from now on, until the stop or the limit. If the reader pauses, the stream pauses
        and WAL piles up on the server: Fatal after `source.pause_limit`.
        """
        wiring, output, timing = self._wiring, self._output, self._wiring.streaming.timing
        stream = temporary_stream(
            wiring.dsn, wiring.plugin, wiring.publication, self._options, timing, self._catalog, self._note
        )
        with closing(stream):
            printed, waiting, moved = stream.start, 0, monotonic()
            try:
                while not (stop.is_set() or self.done):
                    if output.drain(_PATIENCE):
                        printed = max(printed, self._position)
                    if not output or len(output) < waiting:
                        moved = monotonic()
                    waiting = len(output)
                    if monotonic() - moved > wiring.limits.pause:
                        raise _paused(wiring.limits.pause)
                    stream.confirm(printed)
                    for frame in () if output else stream.read(_PATIENCE):
                        self._take(frame)
                        if self.done:
                            break
            finally:
                output.drain(_PATIENCE)

    def _take(self, frame: bytes) -> None:
        """Prints up to the limit; as wal2json it stops where the transaction ends, since C comes after the last I."""
        for item in self._lines.read(frame):
            if isinstance(item, TailLine):
                if item.record and not self._left:
                    self.done = True
                    return
                self._output.add(item.text)
                self._left -= item.record
            elif isinstance(item, Skipped):
                self._note(f"skipped at {item.lsn}, as the settings say: {item.why}")
            else:
                self._position = max(self._position, item[0])
                self.done = not self._left


def _paused(seconds: float) -> Fatal:
    return Fatal(
        f"nothing was read from standard output for {seconds:g} s: the temporary slot is dropped, because it"
        " holds back WAL, and may hold up checkpoints",
        hint="Run it again for what is committed from then on; `walrelay tail --follow > events` stores the events for"
        " later; source.pause_limit sets how long a reader may pause.",
    )


def _lines(wiring: Wiring, catalog: Catalog, form: Form) -> tuple[Options, LineReader]:
    """The plugin's options, and what makes lines from its answer."""
    encoding = catalog.server_encoding()
    if form == "walrelay":
        decoder = wiring.decoder(wiring.shown, encoding=encoding, binary=False)
        return wiring.options(binary=False), RecordLineReader(decoder)
    outbox = encoded(wiring.outbox, encoding)
    if wiring.plugin == "wal2json":
        return wal2json.plain_options(outbox.schema, outbox.table), PluginLineReader(outbox.prefix)
    rendered = RenderedLineReader(outbox, lambda columns: type_names(catalog, columns))
    return wiring.options(binary=False), rendered


def type_names(catalog: Catalog, types: Sequence[tuple[int, int, tuple[str, str] | None]]) -> list[str]:
    """For each (type OID, type modifier, schema and name at that time) the name as PostgreSQL prints it, such as
    `character varying(60)`; for a type that was renamed or dropped since, as it was printed at that time.
    """
    rows = catalog.rows(
        r"""
        SELECT CASE
            WHEN then_name IS NULL OR t.typtype = 'd' OR (t.typname, s.nspname) = (then_name, then_schema)
            THEN format_type(given.oid, modifier)
            ELSE CASE WHEN then_schema = ANY (current_schemas(true)) THEN '' ELSE quote_ident(then_schema) || '.' END
                || CASE WHEN coalesce(t.typcategory = 'A', then_name LIKE '\_%%')
                        THEN quote_ident(substr(then_name, 2)) || '[]' ELSE quote_ident(then_name) END
            END
        FROM unnest(%s::oid[], %s::int4[], %s::text[], %s::text[])
            WITH ORDINALITY AS given (oid, modifier, then_schema, then_name, n)
        LEFT JOIN pg_type t ON t.oid = given.oid LEFT JOIN pg_namespace s ON s.oid = t.typnamespace
        ORDER BY n
        """,
        [oid for oid, _, _ in types],
        [modifier for _, modifier, _ in types],
        [then and then[0] for _, _, then in types],
        [then and then[1] for _, _, then in types],
    )
    return [name for (name,) in rows]


def wal2json_differences(catalog: Catalog, publication: str, table: str) -> Iterator[str]:
    """Why lines rendered from pgoutput differ from wal2json's for this table, as sentences."""
    if catalog.published(publication, table).partitioned:
        yield (
            f"{table} is partitioned: rows are printed under its name, where wal2json prints that of the partition"
            " (and its order of columns)"
        )
    left_out = catalog.value(
        """
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum)
        FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
        LEFT JOIN pg_publication_tables p ON p.pubname = %s AND p.schemaname = nspname AND p.tablename = relname
        WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
          AND (NOT coalesce(to_jsonb(p)->'attnames', to_jsonb(attname)) ? attname
               OR (attgenerated <> '' AND current_setting('server_version_num')::int < 180000))
        """,
        publication,
        table,
    )
    if left_out:
        yield f"pgoutput does not send {left_out} of {table}, which wal2json prints"
    filtered = catalog.value(
        """
        SELECT to_jsonb(p)->>'rowfilter' FROM pg_publication_tables p
        JOIN pg_namespace n ON nspname = schemaname JOIN pg_class c ON relname = tablename AND relnamespace = n.oid
        WHERE pubname = %s AND c.oid = to_regclass(%s)
        """,
        publication,
        table,
    )
    if filtered:
        yield f"pgoutput sends rows of {table} only where {filtered}; wal2json prints all of them"
