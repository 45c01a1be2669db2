"""An audit: reads the rows of a period and the topics that they went to, and makes the report."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple

from walrelay.dead_letters.of_records import DeadLetterOfRecord
from walrelay.operations.audit.reconciliation import AuditReport, AuditTally, Missing, SetAside, within_keys
from walrelay.outcomes import DUE, FoundMessages, LettersOfRows, of_topics, outcomes
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.slot_records import first_xmin
from walrelay.postgres.snapshot import View
from walrelay.publish import Found, ReadBack, RecalledMessage, Span
from walrelay.table.confirmed import ConfirmedRows, confirmed_rows
from walrelay.table.filters import Filters, filter_condition
from walrelay.table.rows import OutboxRows
from walrelay.table.selection import Selection, describe_table, xid8
from walrelay.table.topics import TopicOf, row_topics
from walrelay.wire.commands import literal
from walrelay.wiring import Wiring

_HOUR = timedelta(hours=1)
_MARGIN = timedelta(minutes=10)  # between the times of a row and of its message
_SETTLED = timedelta(seconds=2)  # a younger commit has its time, but may not be visible yet
_PATIENCE = 10.0  # seconds for the relay to confirm what was committed just before
_AT_ONCE = 1000  # ids


class Period(NamedTuple):
    """What to audit: rows committed since, and before (None: up to what the relay has confirmed), in the topics of the
    rules and in these. `listed`: how many of each kind to list. `tenants`: rows of these; none means all rows.
    """

    since: datetime | None = None
    until: datetime | None = None
    topics: Sequence[str] = ()
    listed: int = 10
    tenants: Sequence[str] = ()


class AuditStopped(Exception):
    """It was to stop before its end."""


def audit(
    wiring: Wiring, period: Period, wait: Callable[[float], object], stop: Callable[[], bool] = lambda: False
) -> AuditReport:
    """Reads the table once, the topics once, and again the rows that were not found. Changes nothing. AuditStopped if
    `stop` says so meanwhile.
    """
    read_back = wiring.sink.reader("`walrelay audit`")
    with Catalog(wiring.dsn) as catalog:
        catalog.refuse_standby()
        audit = _Audit(wiring, catalog, period, stop)
        with View(wiring.dsn, catalog) as view:
            known = confirmed_rows(catalog, view, wiring.slot, _PATIENCE, wait)
            audit.read_rows(view, known)
        audit.read_topics(read_back)
        with View(wiring.dsn, catalog) as view:
            return audit.report(view, read_back)


class _Audit:
    """One after the other: rows, topics, report."""

    def __init__(self, wiring: Wiring, catalog: Catalog, period: Period, stop: Callable[[], bool]) -> None:
        self._wiring, self._catalog, self._period, self._stop = wiring, catalog, period, stop
        self._table = describe_table(catalog, wiring)
        self._spans: list[Span] = []
        self._unconfirmed, self._why = 0, ""
        self._dropped = 0  # rows that a rule drops
        self._several = any(rule.goes_on for rule in wiring.rules.routes)  # messages of a row
        self._topic_of = TopicOf(wiring, self._table, roles=("id",))

    def read_rows(self, view: View, known: ConfirmedRows) -> None:
        now = datetime.fromtimestamp(view.microseconds / 1e6, UTC)
        self._since, self._until = self._period.since or now - _HOUR, self._period.until
        settled = min(self._until or now, now - _SETTLED)
        since_ms, until_ms, all_rows = _ms(self._since), _ms(settled), not self._period.tenants
        listed = self._period.listed
        self._tally = AuditTally(since_ms, until_ms, listed, by_topic=self._several, strangers=all_rows)
        self._known, self._why = known, known.why
        names = self._wiring.rules.whole_topics | {*self._period.topics}
        self._names = sorted(names | set(row_topics(self._wiring, view, self._table, self._selection())))
        within = OutboxRows(view, self._table, self._selection(_MARGIN))
        confirmed = self._confirmed(view)
        columns = self._topic_of.columns if self._several else [self._table.id]
        at = columns.index(self._table.id)
        for values, _, judged in within.unordered(columns, f"{self._in_period} AND {confirmed}"):
            id_ = values[at]
            if id_ is None:
                continue
            if not judged:
                self._tally.beside(_text(id_))
            elif self._several:
                self._tally.expect(_text(id_), self._topic_of.all(self._topic_of.record(values)))
            else:
                self._tally.expect(_text(id_))
        ((self._unconfirmed,),) = within.ask(f"count(*) FILTER (WHERE {self._in_period} AND NOT {confirmed})")

    def read_topics(self, read_back: ReadBack) -> None:
        for each in self._messages(read_back):
            if isinstance(each, Found):
                self._tally.found(each)
            else:
                self._spans.append(each)

    def report(self, view: View, read_back: ReadBack) -> AuditReport:
        tally, listed, absent = self._tally, self._period.listed, self._absent(view)
        misplaced = within_keys(tally.out_of_order, self._messages(read_back)) if tally.out_of_order else []
        return AuditReport(
            since=self._since.isoformat(timespec="seconds"),
            until=self._until.isoformat(timespec="seconds") if self._until else "",
            delivery="exactly_once" if self._wiring.exactly_once else "at_least_once",
            rows=tally.rows,
            due=tally.due,
            several=self._several,
            of_tenants=bool(self._period.tenants),
            unconfirmed=self._unconfirmed,
            why=self._why or ("a transaction has been open since" if self._unconfirmed else ""),
            messages=tally.read,
            spans=sorted(self._spans),
            missing=tally.missing - absent.statuses.total() - self._dropped,
            missing_listed=absent.missing,
            before_slot=absent.before_slot,
            removed=tally.missing - absent.rows - self._dropped,
            set_aside=dict(absent.statuses),
            set_aside_listed=absent.set_aside,
            misplaced=tally.misplaced,
            misplaced_in_key=sum(each.key for each in misplaced),
            misplaced_listed=misplaced[:listed],
            repeated=tally.times(),
            repeated_listed=tally.repetitions,
            again=tally.again,
            unknown=tally.strangers,
            unknown_listed=tally.unknown,
        )

    def _absent(self, view: View) -> "_Absent":
        """The rows without a message, as missing ones or dead letters."""
        absent, found = _Absent(self._period.listed), self._not_found(view) if self._tally.missing else iter(())
        letters = LettersOfRows(self._wiring, self._catalog)
        while some := list(islice(found, _AT_ONCE)):
            letters.look_up([row.id for row, *_ in some])
            for row, topics, is_before in some:
                letter = self._letter(row, topics, letters.of(row.id))
                if letter is not None:
                    absent.letter(SetAside(row.id, letter.position, letter.status, letter.error))
                elif self._tally.is_letter(row.id):
                    absent.letter(SetAside(row.id, "", "in a topic", ""))
                else:
                    absent.row(row, is_before)
        return absent

    def _letter(
        self, row: Missing, topics: Sequence[str], letters: Sequence[DeadLetterOfRecord]
    ) -> DeadLetterOfRecord | None:
        """The one that explains why its topic lacks messages of the row, as all that publish from the table see it;
        None: one of them has no dead letter.
        """
        if not letters:
            return None
        there = (
            RecalledMessage(topic, row.id, "", number)
            for topic in dict.fromkeys(topics)
            for number in range(topics.count(topic) - self._tally.lacking(row.id, topic))
        )
        found = FoundMessages(there, self._period.topics)
        judged = outcomes(row.id, of_topics(topics), found, letters)
        own = [each for topic, each in zip(topics, judged, strict=True) if topic == row.topic]
        explained = [each.letter for each in own if each.letter is not None]
        if any(each.outcome == DUE for each in own) or any(self._is_gone(each, row.topic) for each in explained):
            return None
        return explained[0] if explained else None

    def _is_gone(self, letter: DeadLetterOfRecord, topic: str) -> bool:
        """Whether a replay published it where it was looked for in vain."""
        looked_for = not self._several or letter.topic in (None, topic)
        return letter.status == "replayed" and not letter.edited and looked_for

    def _messages(self, read_back: ReadBack) -> Iterator[Found | Span]:
        letters = self._wiring.policy.topic
        names = sorted({*self._names, letters} if letters else {*self._names})
        for each in read_back(names, _ms(self._since - _MARGIN)):
            if self._stop():
                raise AuditStopped
            yield each

    def _not_found(self, view: View) -> Iterator[tuple[Missing, list[str], bool]]:
        """The rows without a message that still exist, with the topics of all their messages, and whether each is older
        than the slot.
        """
        topic_of, tally = self._topic_of, self._tally
        slot, system = self._wiring.slot, self._catalog.system()
        before = f"{xid8(view.xmax)} < {first_xmin(self._catalog, slot, system.identifier)}"
        for values, at, is_before in OutboxRows(view, self._table, self._selection()).unordered(
            topic_of.columns, before
        ):
            record, time = topic_of.record(values), None if at is None else at // 1000
            if record.id is None or not (self._several or tally.is_missing(record.id)):
                continue
            topics = topic_of.all(record)
            if not topics:
                self._dropped += tally.is_missing(record.id)
            for topic in dict.fromkeys(topics):
                if tally.is_missing(record.id, topic):
                    yield Missing(record.id, topic, time), topics, is_before

    def _selection(self, margin: timedelta = timedelta()) -> Selection:
        since, until = self._since - margin, self._until and self._until + margin
        end, tenants = until.isoformat() if until else None, self._period.tenants
        filters = Filters(since=since.isoformat(), until=end, tenants=tenants)
        return Selection(also=filter_condition(self._table, self._wiring.outbox.columns._asdict(), filters))

    @property
    def _in_period(self) -> str:
        time = self._table.time
        since = f"coalesce({time} >= {literal(self._since.isoformat())}, false)"
        return f"({since} AND {time} < {literal(self._until.isoformat())})" if self._until else since

    def _confirmed(self, view: View) -> str:
        return "true" if self._known.everything else f"{xid8(view.xmax)} < {self._known.xmin}"


class _Absent:
    """Rows without a message: missing, or dead letters."""

    def __init__(self, listed: int) -> None:
        self._listed = listed
        self.rows = self.before_slot = 0
        self.missing: list[Missing] = []
        self.set_aside: list[SetAside] = []
        self.statuses: Counter[str] = Counter()

    def row(self, row: Missing, is_before: bool) -> None:
        """A missing row; `is_before`: it is older than the slot."""
        self.rows += 1
        self.before_slot += is_before
        self.missing += [row] if len(self.missing) < self._listed else []

    def letter(self, letter: SetAside) -> None:
        self.rows += 1
        self.statuses[letter.status] += 1
        self.set_aside += [letter] if len(self.set_aside) < self._listed else []


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
