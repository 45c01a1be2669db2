"""What happened to a row, from what the table, the relay's progress, the dead letters and the topics say. Pure."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from walrelay.dead_letters.of_records import DeadLetterOfRecord
from walrelay.operations.find.progress import PublishedFrom, RelayProgress
from walrelay.operations.find.report import RowCopy, RowDeadLetter, RowDestination, RowState, TracedRow, iso
from walrelay.operations.find.rows import TableRow
from walrelay.outcomes import OPEN, FoundMessages, letters_of_other_topics, of_topics, outcomes

_WORST: tuple[RowState, ...] = ("dead_letter", "waiting", "unknown", "published", "dropped")
_NOTHING_READ = FoundMessages()
_GONE = (
    "there is no such row in the table: it was cleaned up, removed at once, rolled back or never written; and no dead"
    " letter"
)
_NOT_THERE = (
    "but {} has no such message now: it was deleted there, went to another topic, or never got there; see `walrelay"
    " audit`"
)


def traced(row: TableRow, progress: RelayProgress, letters: Sequence[DeadLetterOfRecord]) -> TracedRow:
    """A row of the table: each of its messages by its dead letter, or else by how far the relay is."""
    found = TracedRow(
        row.id,
        row.aggregate_type,
        row.aggregate_id,
        row.type,
        row.written_at,
        row.committed_at,
        due=tuple(filter(None, row.topics or ())),
    )
    if row.dropped_by and not letters:
        return found._replace(state="dropped", why=row.dropped_by, due=())
    state, why, behind = _state(row, progress)
    if state != "published" and row.topics == ("",):
        why += "; by today's rules no rule routes it, and the relay stops there unless `refusals` says otherwise"
    topics = row.topics or _topics_of(letters)
    judged = outcomes(row.id, of_topics(topics), _NOTHING_READ, letters)
    others = letters_of_other_topics(letters, topics)
    if others and state == "published":
        state, why = "unknown", f"{why}, but by earlier rules, which sent it to {_named(others)}"
    destinations = [
        RowDestination(topic, state, why) if each.letter is None else _of_letter(topic, each.letter)
        for topic, each in zip(topics, judged, strict=True)
    ]
    destinations += [_of_letter(letter.topic or "", letter) for letter in others]
    open_ = any(each.letter is None for each in judged)
    return _summed(_with_letter(found._replace(behind=behind if open_ else ""), letters), destinations)


def without_row(id_: str, letters: Sequence[DeadLetterOfRecord]) -> TracedRow:
    """An id that no row has. Of its messages only those are known that became dead letters."""
    if not letters:
        return TracedRow(id_, in_table=False, why=_GONE)
    last, topics = letters[-1], _topics_of(letters)
    found = TracedRow(
        id_,
        last.aggregate_type,
        last.aggregate_id,
        last.type,
        committed_at=last.committed_at or None,
        in_table=False,
        due=tuple(filter(None, topics)),
    )
    judged = outcomes(id_, of_topics(topics), _NOTHING_READ, letters)
    destinations = [_of_letter(topic, each.letter) for topic, each in zip(topics, judged, strict=True) if each.letter]
    return _summed(_with_letter(found, letters), destinations)


def _named(letters: Sequence[DeadLetterOfRecord]) -> str:
    return ", ".join(dict.fromkeys(each.topic or "" for each in letters))


def _topics_of(letters: Sequence[DeadLetterOfRecord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.topic or "" for each in letters)) or ("",)


def _of_letter(topic: str, letter: DeadLetterOfRecord) -> RowDestination:
    earlier = f" for topic {letter.topic}" if letter.topic else ""
    why = f"dead letter {letter.letter}{earlier} is {letter.status} ({letter.error})"
    if letter.status in OPEN:
        why += f": walrelay dlq show {letter.letter}"
    return RowDestination(topic, "published" if letter.status == "replayed" else "dead_letter", why)


def _with_letter(found: TracedRow, letters: Sequence[DeadLetterOfRecord]) -> TracedRow:
    """Shows the first that is open, or else the last."""
    if not letters:
        return found
    letter = next((each for each in letters if each.status in OPEN), letters[-1])
    return found._replace(
        dead_letter=RowDeadLetter(letter.letter, letter.status, letter.error, letter.topic, letter.position),
        letters=len(letters),
    )


def _summed(row: TracedRow, destinations: Sequence[RowDestination]) -> TracedRow:
    """A row is published when each of its messages is; of several states the worst is the row's."""
    states = {each.state for each in destinations}
    whys = list(dict.fromkeys(each.why for each in destinations))
    why = whys[0] if len(whys) == 1 else "; ".join(f"{each.topic}: {each.why}" for each in destinations)
    if row.letters > 1:
        why += f"; it has {row.letters} dead letters"
    state = next(each for each in _WORST if each in states)
    return row._replace(state=state, why=why, destinations=tuple(destinations))


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


def with_copies(
    row: TracedRow, copies: Sequence[RowCopy], found: Collection[str], in_letters: str, missing: Sequence[str]
) -> TracedRow:
    """What the topics add. `found`: the topics that have a message of the row; `in_letters`: the topic in which it is a
    dead letter; `missing`: topics that were read to their end, and should have it.
    """
    row = row._replace(copies=tuple(copies))
    if in_letters and row.dead_letter is None and not copies:
        letter = RowDeadLetter(None, "in a topic", "", None, "")
        why = f"it is a dead letter in the topic {in_letters}"
        return row._replace(state="dead_letter", why=why, dead_letter=letter)
    if not (row.destinations or row.in_table):  # and no dead letter
        if copies:
            return row._replace(state="published", why="its row is gone, and its message is in the topic")
        return row._replace(why=f"{row.why}; nor do the topics have it that were read")
    known = row.destinations or [RowDestination(topic, row.state, row.why) for topic in row.due or ("",)]
    there = {each.topic: bool(copies) if len(known) == 1 else each.topic in found for each in known}
    return _summed(row, [_as_read(row, each, there[each.topic], missing) for each in known])


def _as_read(row: TracedRow, of: RowDestination, is_there: bool, missing: Sequence[str]) -> RowDestination:
    if is_there and of.state in ("waiting", "unknown"):
        behind = f", and not confirmed yet: {row.behind}" if of.state == "waiting" else ""
        return of._replace(state="published", why=f"its message is in the topic{behind}")
    if of.topic in missing and of.state == "unknown" and row.behind:
        return of._replace(state="waiting", why=row.behind)
    if of.topic in missing and of.state == "published":
        return of._replace(why=f"{of.why}, {_NOT_THERE.format(of.topic)}")
    return of


def missing_topics(row: TracedRow, found: Collection[str], state: Mapping[str, str]) -> list[str]:
    """The topics that are due, were read to their ends, and do not have it. `state`: topic -> why it was not."""
    return [each for each in row.due if state.get(each) == "" and each not in found]
