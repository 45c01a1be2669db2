"""Rows of the table behind an open dead letter of their key: they become blocked dead letters, as they would in the
stream, and `walrelay dlq replay` publishes them in their order.
"""

from walrelay.dead_letter import DeadLetter, Origin
from walrelay.dead_letters.handling import DeadLetterTable, OrderKey
from walrelay.dead_letters.identity import stored_id, stored_text
from walrelay.dead_letters.republishing import Republishing, open_letters
from walrelay.dead_letters.store import TABLE as DEAD_LETTERS
from walrelay.dead_letters.store import DeadLetterTableWriter, readable
from walrelay.model import Message, OutboxRecord
from walrelay.observe import DeadLettered, Observer
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.snapshot import View
from walrelay.route import Routing
from walrelay.table.rows import OutboxRows
from walrelay.table.selection import RowCondition, Selection, TableDescription, all_of, id_text
from walrelay.wiring import Wiring

_WHY = "an earlier message of its key is a dead letter"


class BlockedKeys:
    """Of one reading of the table. A row that precedes the dead letter of its key in the order of the table is not
    behind it: `ahead` are the ids of the rows with an open dead letter that are still to come.
    """

    def __init__(self, wiring: Wiring, catalog: Catalog, observer: Observer, routing: Routing) -> None:
        """`routing`: by today's rules, which may publish an open dead letter under another topic or key."""
        self._slot, self._observer = wiring.slot, observer
        self._first: dict[OrderKey, Origin] = {}
        self._holders: dict[OrderKey, dict[OrderKey, Origin]] = {}  # what was refused, by what it is published under
        self.ahead: set[str] = set()
        if readable(catalog):
            self._writer = DeadLetterTableWriter(catalog, wiring.slot, wiring.sink.sink_of)
            self._first = self._writer.blocked_keys(begun=not wiring.policy.block_key)
        if self._first and wiring.policy.block_key:
            table = DeadLetterTable(catalog, wiring.slot, patience=None)
            for letter in open_letters(table, Republishing(lambda record: [*routing.route(record)])):
                for now in letter.now:
                    self._holders.setdefault(now, {}).setdefault(letter.then, letter.origin)

    def begin(self, view: View, table: TableDescription, selection: Selection) -> None:
        """Finds out which rows of the selection are `ahead`."""
        if not self._first:
            return
        condition = (
            f"{id_text(table)} IN (SELECT record_id FROM {DEAD_LETTERS} WHERE slot_name = %s"
            " AND status IN ('waiting', 'blocked') AND topic IS NOT NULL AND key IS NOT NULL)"
        )
        also = all_of(selection.also, RowCondition(condition, [self._slot]))
        rows = OutboxRows(view, table, selection._replace(also=also))
        self.ahead = {(values[0] or b"").decode("utf-8", "surrogateescape") for values in rows.distinct([table.id])}

    def passes(self, record: OutboxRecord) -> None:
        """The reading is at this row."""
        self.ahead.discard(record.id)

    def holds(self, record: OutboxRecord, number: int, message: Message) -> bool:
        """Whether the message, the record's `number`th, is behind a dead letter, and became one."""
        if not self._first or message.key is None:
            return False
        key = stored_text(message.topic), message.key
        holders = self._holders.get(key, {})
        return self._waits(record, number, message, key, self._first) or any(
            self._waits(record, number, message, then, holders)
            for then in [*holders]
            if holders[then].record_id != stored_id(record.id)
        )

    def _waits(
        self, record: OutboxRecord, number: int, message: Message, key: OrderKey, firsts: dict[OrderKey, Origin]
    ) -> bool:
        """`key`: what was refused."""
        first = firsts.get(key)
        if first is None or first.record_id in self.ahead:
            return False
        if first.record_id == stored_id(record.id) and number <= first.number:
            return False
        origin = Origin(record.commit_lsn, record.ordinal, number, record.id)
        plain = Message(*message)
        letter = DeadLetter(origin, "blocked", "blocked", _WHY, message.topic, message.key, record, plain, attempts=0)
        if self._writer.write_blocked(letter, key):
            self._observer.saw(DeadLettered(letter))
            self._writer.await_standbys()
            return True
        del firsts[key]  # it was closed meanwhile
        if (another := self._writer.first_open(*key)) is not None:
            firsts[key] = another
        return False
