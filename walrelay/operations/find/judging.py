"""What happened to a row, from what the table, the relay's progress, the dead letters and the topics say. Pure."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from walrelay.dead_letters.store import DeadLetterOfRecord
from walrelay.operations.find.progress import PublishedFrom, RelayProgress
from walrelay.operations.find.report import RowCopy, RowDeadLetter, RowState, TracedRow, iso
from walrelay.operations.find.rows import TableRow

OPEN = ("waiting", "blocked")
_GONE = (
    "there is no such row in the table: it was cleaned up, removed at once, rolled back or never written; and no dead"
    " letter"
)
_NOT_THERE = "but {} has no such message now: it was deleted there, or went to another topic; see `walrelay audit`"


def traced(row: TableRow, progress: RelayProgress, letters: Sequence[DeadLetterOfRecord]) -> TracedRow:
    """A row of the table."""
    found = TracedRow(
        row.id,
        row.aggregate_type,
        row.aggregate_id,
        row.type,
        row.written_at,
        row.committed_at,
        due=tuple(filter(None, row.topics or ())),
    )
    if letters:
        return _with_letter(found, letters)
    if row.dropped_by:
        return found._replace(state="dropped", why=row.dropped_by, due=())
    state, why, behind = _state(row, progress)
    if state != "published" and row.topics == ("",):
        why += "; by today's rules no rule routes it, and the relay stops there unless `refusals` says otherwise"
    return found._replace(state=state, why=why, behind=behind)


def without_row(id_: str, letters: Sequence[DeadLetterOfRecord]) -> TracedRow:
    """An id that no row has."""
    if not letters:
        return TracedRow(id_, in_table=False, why=_GONE)
    last = letters[-1]
    return _with_letter(
        TracedRow(
            id_,
            last.aggregate_type,
            last.aggregate_id,
            last.type,
            committed_at=last.committed_at or None,
            in_table=False,
            due=(last.topic,) if last.topic else (),
        ),
        letters,
    )


def _with_letter(found: TracedRow, letters: Sequence[DeadLetterOfRecord]) -> TracedRow:
    """The first that is open counts; of closed ones the last."""
    letter = next((each for each in letters if each.status in OPEN), letters[-1])
    topic = f" for topic {letter.topic}" if letter.topic else ""
    why = f"dead letter {letter.letter}{topic} is {letter.status} ({letter.error})"
    if letter.status in OPEN:
        why += f": walrelay dlq show {letter.letter}"
    if len(letters) > 1:
        why += f"; it has {len(letters)} dead letters"
    shown = RowDeadLetter(letter.letter, letter.status, letter.error, letter.topic, letter.position)
    state: RowState = "published" if letter.status == "replayed" else "dead_letter"
    return found._replace(state=state, why=why, dead_letter=shown)


def _state(row: TableRow, progress: RelayProgress) -> tuple[RowState, str, str]:
    """With why, and how far the relay is behind it."""
    if row.marked:
        return "published", "its row is marked as published", ""
    if progress.lost:
        return "unknown", progress.lost, ""
    if not progress.confirmed(row.id, row.xid, row.committed_at):
        at = row.written_at if row.committed_at is None else row.committed_at
        if progress.waits(row.id, at):
            return "waiting", progress.behind, progress.behind
        oldest = "" if progress.waiting_since is None else f" (what waits was committed from {_time(progress)} on)"
        why = f"{progress.behind}. Whether it is past this row is not known{oldest}; reading the topics back says it"
        return "unknown", why, progress.behind
    since = progress.parts.get(row.part, PublishedFrom(why="its table was attached just now"))
    if since.why:
        why = f"the relay is past it, but rows may not have been published: {since.why}"
    elif row.xid < since.number or not _is_from(row.written_at, row.committed_at, since.time):
        why = "it is from before the slot, or before it published this table: only a backfill publishes it"
    else:
        return "published", "the relay has confirmed it", ""
    return "unknown", why, ""


def _time(progress: RelayProgress) -> str:
    return f"{iso(progress.waiting_since)}".replace("T", " ").replace("+00:00", " UTC")


def _is_from(written_at: int | None, committed_at: int | None, time: str) -> bool:
    if not time:
        return True
    at = written_at if written_at is not None else committed_at
    try:
        return at is not None and at >= int(datetime.fromisoformat(time).timestamp() * 1_000_000)
    except ValueError:
        return False


def with_copies(row: TracedRow, copies: Sequence[RowCopy], in_letters: str, missing: Sequence[str]) -> TracedRow:
    """What the topics add. `in_letters`: the topic in which it is a dead letter; `missing`: topics that were read to
    their end, and should have it.
    """
    row = row._replace(copies=tuple(copies))
    if in_letters and row.dead_letter is None and not copies:
        letter = RowDeadLetter(None, "in a topic", "", None, "")
        return row._replace(
            state="dead_letter", why=f"it is a dead letter in the topic {in_letters}", dead_letter=letter
        )
    if copies and row.state in ("waiting", "unknown"):
        return row._replace(state="published", why=_why_of_copies(row, copies))
    if row.state == "unknown" and row.behind and row.due and {*row.due} <= {*missing}:
        return row._replace(state="waiting", why=row.behind)
    if row.state == "published" and missing:
        return row._replace(why=f"{row.why}, {_NOT_THERE.format(' and '.join(missing))}")
    if row.state == "unknown" and not copies and not row.in_table:
        return row._replace(why=f"{row.why}; nor do the topics have it that were read")
    return row


def _why_of_copies(row: TracedRow, copies: Sequence[RowCopy]) -> str:
    if not row.in_table:
        return "its row is gone, and its message is in the topic"
    if row.state == "waiting":
        return f"its message is in the topic, and not confirmed yet: {row.behind}"
    return "its message is in the topic"


def missing_topics(row: TracedRow, found: Collection[str], state: Mapping[str, str]) -> list[str]:
    """The topics that are due, were read to their ends, and do not have it. `state`: topic -> why it was not."""
    return [each for each in row.due if state.get(each) == "" and each not in found]
