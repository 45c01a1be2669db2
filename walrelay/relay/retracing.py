"""Whether the WAL behind a slot is the WAL that this relay has read, although the slot is behind it.

A server whose disk is set back (a snapshot of a volume or machine) goes on with the same system identifier and
timeline, and soon has other transactions at the positions that were read before. Their LSNs prove nothing. Their commit
times do: a transaction that was committed after that is later than all that was read before.

So a position is believed only after the stream was read from the slot up to it. The transaction that was committed last
of all that were read has to be there, with its time, and none that is later. Nothing is confirmed meanwhile.
"""

from collections.abc import Callable

from walrelay.decode.contract import Decoder
from walrelay.errors import Fatal, Undecodable
from walrelay.lsn import LSN, ZERO
from walrelay.model import Committed, Event, Idle, LatestCommit, OutboxRecord, Undecoded
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.slot_moves import at_once, gap, take_row
from walrelay.postgres.slot_records import forget_published
from walrelay.publish import ExactlyOnceSink, Sink
from walrelay.source.slot_source import SlotSource
from walrelay.source.start import OwnPosition, SetBack, Start


class ReadHistory:
    """The source of a run and its decoder, once more where the WAL had to be read to find out what may be believed."""

    def __init__(
        self,
        source: SlotSource,
        decoder: Decoder,
        again: Callable[[], tuple[SlotSource, Decoder]],
        stop: Callable[[], bool],
    ) -> None:
        self.source, self.decoder, self._again, self._stop = source, decoder, again, stop

    def start(self, catalog: Catalog, own: OwnPosition | None) -> Start:
        """Where to begin; Fatal where events may be missing."""
        start = self.source.find_start(own)
        if own is not None:
            start = self._believed(start, own)
        elif why := at_once(catalog, lambda: gap(catalog, self.source.slot), ""):
            start = start._replace(notice=self._told_of(why, catalog))
        take_row(catalog, self.source.slot.name, self.source.lead)
        return start

    def _told_of(self, gap: str, catalog: Catalog) -> str:
        """Told and not refused: the next events wait for nothing. But no clean-up may delete what was left out: Fatal
        where that cannot be noted, and the row goes on to say where the earlier lead ended.
        """
        hint = "`walrelay recover --replace` publishes rows in between that are still in the table"
        try:
            with catalog.connection.transaction():
                catalog.run("SET LOCAL synchronous_commit = local")  # no standby is waited for
                forget_published(catalog, self.source.slot.name)
        except Fatal as why:
            text = f"{gap}; the clean-up cannot be kept from those rows: {why}"
            raise Fatal(text, hint=f"{hint}. Or, to go on without them: {why.hint}", page="slot-moved") from why
        return f"{gap} (hint: {hint}; the clean-up deletes nothing until then)"

    def at_the_slot(self, catalog: Catalog, own: Callable[[], OwnPosition | None]) -> Start:
        """Begins at the slot's position because an operator asked for it, against the relay's own. If that one, or the
        relay's last report, says that events may be skipped, or if it cannot be read, they must not be assumed
        published later.
        """
        slot, start = self.source.slot, self.source.find_start(None)
        try:
            kept = own()
            passed_over = kept is not None and self.source.find_start(kept).lsn < start.lsn
        except SetBack:
            passed_over = False  # the slot is behind what was read
        except Fatal:
            passed_over = True
        if passed_over or at_once(catalog, lambda: gap(catalog, slot), "unknown"):
            forget_published(catalog, slot.name)
            said = f"the stream begins at {start.lsn} as asked, and events before it may be skipped: the clean-up"
            start = start._replace(notice=f"{said} deletes nothing until `walrelay init` takes note of that")
        take_row(catalog, slot.name, self.source.lead)
        return start

    def _believed(self, start: Start, own: OwnPosition) -> Start:
        lsn, latest = own.position.lsn, own.position.latest
        if start.lsn != lsn or latest is None:
            return start
        same = self.same_up_to(lsn, latest)
        if same != lsn:
            start = self.source.set_back(own, same)
        return start._replace(kept=latest) if latest.commit_lsn < start.lsn else start  # what is behind comes again

    def same_up_to(self, lsn: LSN, latest: LatestCommit | None) -> LSN:
        """Up to where the server's WAL is what was read up to `lsn`; ZERO: not up to the latest commit. `lsn` where
        that is not known, because an earlier version did not note it.
        """
        if latest is None or lsn <= (self.source.slot.confirmed_flush_lsn or ZERO):
            return lsn
        same = _retraced(self.source, self.decoder, lsn, latest, self._stop)
        self.source, self.decoder = self._again()
        return same


def telling(sink: ExactlyOnceSink | Sink | None) -> Callable[[LatestCommit], object]:
    """The sink's `read_up_to`, or a function that does nothing where it has none."""
    found: Callable[[LatestCommit], object] = getattr(sink, "read_up_to", _ignored)
    return found


def _ignored(_: LatestCommit) -> None:
    pass


def _retraced(source: SlotSource, decoder: Decoder, until: LSN, latest: LatestCommit, stop: Callable[[], bool]) -> LSN:
    """See `ReadHistory.same_up_to`. The decoder cannot be used afterwards. What its settings cannot read is believed:
    it was read under others.
    """
    past = _Past(source.slot.confirmed_flush_lsn or ZERO, min(until, source.wal_end), latest)
    with source.retrace(stop) as read:
        while not past.over:
            for frame in read():
                try:
                    events = decoder.decode(frame)
                except Undecodable:
                    return until
                for event in events:
                    past.take(event)
    return until if past.same == until else past.known


class _Past:
    """`same`: the end, if all is as it was. `known`: up to where it is, if all that was read is before; else ZERO."""

    def __init__(self, begin: LSN, until: LSN, latest: LatestCommit) -> None:
        self._until, self._latest = until, latest
        self._since, read = ZERO, latest.commit_lsn  # since when the latest commit is the latest
        if not latest.committed_at:
            self._since, read = latest.commit_lsn, LSN(max(0, latest.commit_lsn - 1))
        self._met = not begin <= read < until or not latest.committed_at
        self.same, self.known = ZERO, begin if read < begin else self._since if self._since < until else ZERO
        self.over, self._inside = False, False

    def take(self, event: Event) -> None:
        match event:
            case _ if self.over:
                pass
            case OutboxRecord() | Undecoded():
                self._read(event.commit_lsn, event.committed_at)
            case Committed(end_lsn):
                if self._inside:
                    self._met, self.known = True, end_lsn
                self._reaches(end_lsn, across=end_lsn > self._until)  # no commit lay across that position
            case Idle(lsn):
                self._reaches(lsn)

    def _read(self, commit_lsn: LSN, committed_at: int) -> None:
        latest = self._latest
        self._inside = (commit_lsn, committed_at) == latest
        if commit_lsn >= self._until:
            self._reaches(self._until)
        elif not self._inside:
            another = commit_lsn == latest.commit_lsn and latest.committed_at > 0
            self.over = another or (commit_lsn >= self._since and committed_at > latest.committed_at)

    def _reaches(self, lsn: LSN, *, across: bool = False) -> None:
        if lsn >= self._until:
            self.over = True
            self.same = self._until if self._met and not across else ZERO
