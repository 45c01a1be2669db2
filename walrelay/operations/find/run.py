"""Looks for rows: in the table, at the slot and among the dead letters, on one connection."""

from collections.abc import Callable, Mapping, Sequence

from walrelay.dead_letters.of_records import DeadLetterOfRecord, dead_letters_of
from walrelay.errors import Fatal, Retryable
from walrelay.operations.find.judging import traced, without_row
from walrelay.operations.find.progress import relay_progress
from walrelay.operations.find.question import RowQuestion
from walrelay.operations.find.report import FoundRows
from walrelay.operations.find.rows import RowSearch
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied
from walrelay.postgres.snapshot import BorrowedView
from walrelay.wiring import Wiring

_PATIENCE = 1.0  # seconds for the relay to confirm what was committed just before


def look(wiring: Wiring, catalog: Catalog, question: RowQuestion, wait: Callable[[float], object]) -> FoundRows:
    """What PostgreSQL knows. Changes nothing, and leaves the connection as it was."""
    if not question.asks:
        raise Fatal("nothing says which rows to find", hint="Give an id, an aggregate or a time.")
    for topic in question.topics:
        wiring.sink.refuse_unknown(topic)
    catalog.refuse_standby()
    with BorrowedView(catalog) as view:
        found, more, notices = RowSearch(wiring, catalog, view).find(question)
    progress = relay_progress(wiring, catalog, view, _PATIENCE, wait)
    there = {each.id for each in found}
    gone = [] if question.after else [each for each in dict.fromkeys(question.ids) if not {each, each.lower()} & there]
    letters = _letters(wiring, catalog, [*there, *gone], notices)
    rows = [traced(each, progress, letters.get(each.id, ())) for each in found]
    rows += [without_row(each, letters.get(each, ())) for each in gone]
    topics = {*question.topics}
    if question.reads and any(not each.due and not each.in_table for each in rows):
        topics |= _topics_of_rows(wiring, catalog, notices)
    return FoundRows(rows, more, notices, sorted(topics))


def _letters(
    wiring: Wiring, catalog: Catalog, ids: Sequence[str], notices: list[str]
) -> Mapping[str, Sequence[DeadLetterOfRecord]]:
    try:
        return dead_letters_of(catalog, wiring.slot, ids)
    except Denied as why:
        notices.append(f"dead letters were not looked for: {why}; {why.hint}")
        return {}


def _topics_of_rows(wiring: Wiring, catalog: Catalog, notices: list[str]) -> set[str]:
    """Where messages may be whose row is gone: what the rules name, and what other rows go to."""
    rules = wiring.rules
    if rules.routes and all("*" not in topic for topic in rules.topics) and not rules.uses_template:
        return rules.whole_topics
    try:
        with BorrowedView(catalog) as view:
            found, told = RowSearch(wiring, catalog, view).topics()
    except Denied:
        raise
    except (Fatal, Retryable) as why:
        notices.append(f"which topics rows go to was not found out, so name those to read: {why}")
        return rules.whole_topics
    notices += told
    return {*rules.whole_topics, *found}
