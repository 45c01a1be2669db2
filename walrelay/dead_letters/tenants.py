"""Which dead letters are of a tenant.

The record says it. One that was stored without its tenant (routing did not need the column, in earlier versions) is
looked for in the outbox, where the row may still be. What could not be read has no record.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from walrelay.dead_letter import record_from
from walrelay.dead_letters.identity import stored_text
from walrelay.dead_letters.store import TABLE, meaning
from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring

_PAGE = 200  # records that are in memory at a time


class TenantFilter(NamedTuple):
    """Dead letters of these tenants. `notice` is told how many are left out because nothing says their tenant."""

    tenants: Collection[str]
    wiring: Wiring
    notice: Callable[[str], None]

    def select(self, catalog: Catalog, ids: Sequence[int]) -> list[int]:
        """Those of the tenants, in their order."""
        found, untold = set[int](), dict[int, str]()
        for start in range(0, len(ids), _PAGE):
            for id_, record_id, record in self._page(catalog, ids[start : start + _PAGE]):
                tenant = None if record is None else record_from(record).tenant_id
                if tenant is None:
                    untold[id_] = record_id
                elif tenant in self.tenants:
                    found.add(id_)
        rows = self._rows(catalog, [*untold.values()]) if untold else {}
        found |= {id_ for id_, record_id in untold.items() if rows.get(record_id)}
        if unknown := sum(record_id not in rows for record_id in untold.values()):
            letters = "dead letter" if unknown == 1 else "dead letters"
            self.notice(f"left out: {unknown} {letters} whose tenant is not known: not readable, or the row is gone")
        return [id_ for id_ in ids if id_ in found]

    def _page(self, catalog: Catalog, ids: Sequence[int]) -> list[tuple[int, str, dict[str, object] | None]]:
        with meaning(catalog.connection):
            query = f"SELECT id, record_id, record FROM {TABLE} WHERE id = ANY(%s)"
            return catalog.connection.execute(query.encode(), (list(ids),)).fetchall()

    def _rows(self, catalog: Catalog, record_ids: Sequence[str]) -> dict[str, bool]:
        """Whether the row of that id is of one of the tenants; rows that are gone are left out."""
        columns, there = self.wiring.outbox.columns, catalog.column_types(self.wiring.table)
        if columns.id not in there or columns.tenant_id not in there:
            return {}
        id_, tenant = (f"{identifier(column)}::text".replace("%", "%%") for column in (columns.id, columns.tenant_id))
        rows = catalog.rows(
            f"SELECT {id_}, coalesce({tenant} = ANY (%s::text[]), false) FROM {self.wiring.table.replace('%', '%%')}"
            f" WHERE {id_} = ANY (%s::text[])",
            [stored_text(each) for each in self.tenants],
            list(record_ids),
        )
        return dict(rows)
