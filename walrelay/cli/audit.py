"""`walrelay audit`: compares the table with the topics."""

from collections.abc import Iterator
from datetime import UTC, datetime
from time import sleep

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.doctor import note_no_events
from walrelay.cli.options import Moment, MomentType
from walrelay.operations import audit as operation
from walrelay.operations.audit import AuditReport
from walrelay.postgres.catalog import Catalog
from walrelay.publish import Found

_INDENT = " " * 14
_NAMED = 5  # ids in a command to paste


@click.command()
@one_relay
@click.option("--from", "since", type=MomentType(), help="Rows committed at or after this time. Default: an hour ago.")
@click.option(
    "--to",
    "until",
    type=MomentType(),
    help="Rows committed before this time. Default: all that the relay has confirmed.",
)
@click.option(
    "--topic", "topics", multiple=True, help="Also read this topic; those of the routing rules are always read."
)
@click.option(
    "--tenant", "tenants", metavar="ID", multiple=True, help="Only rows of this tenant. May be given repeatedly."
)
@click.option(
    "--list",
    "listed",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="List at most this many findings of each kind.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.pass_context
def audit(
    ctx: click.Context,
    relay: Chosen,
    since: Moment | None,
    until: Moment | None,
    topics: tuple[str, ...],
    tenants: tuple[str, ...],
    listed: int,
    as_json: bool,
) -> None:
    """Check that every row of a period is in the topics, in order.

    The order is commit order. Repeated messages are counted.

    It reads the topics from the beginning of the period to their end, as a consumer would, and changes nothing.
    The exit code is 1 if rows are missing, out of order or, with exactly-once delivery, repeated.

    \b
    Example:
      walrelay audit
      walrelay audit --from 2026-11-21T08:00Z --to 2026-11-21T09:00Z --json
      walrelay audit --tenant acme --from 2h
    """
    period = operation.Period(since and since.at, until and until.at, topics, listed, tenants)
    wiring = compose.wiring(relay.settings())
    report = operation.audit(wiring, period, sleep)
    click.echo(report.as_json() if as_json else "\n".join(lines(report)))
    with Catalog(wiring.dsn) as catalog:
        note_no_events(catalog, wiring)
    ctx.exit(1 if report.faults else 0)


def lines(report: AuditReport) -> Iterator[str]:
    """The report as lines of text."""
    yield _line("period", f"from {_iso(report.since)} to {_iso(report.until) or 'what the relay has confirmed'}")
    due = f"{_count(report.due, 'message')} of " if report.several else ""
    yield _line("table", f"{due}{_count(report.rows, 'row')} to check")
    if report.unconfirmed:
        yield _line(
            "", f"{_count(report.unconfirmed, 'row')} more may not be confirmed yet ({report.why}): not checked"
        )
    yield from _topics(report)
    yield from _missing(report)
    yield from _set_aside(report)
    yield from _order(report)
    yield from _repeated(report)
    if report.again:
        yield _line(
            "again", f"{_count(report.again, 'message')} from a replay or a backfill: their order is not checked"
        )
    if report.unknown:
        what = "message" if report.several else "event"
        yield _line("unknown", f"{_count(report.unknown, what)} of the period without a row in the table")
        yield f"{_INDENT}their rows were cleaned up, or the events were emitted without a row"
        yield from _found(report.unknown_listed)
    if report.of_tenants:
        yield _line("unknown", "not looked for: a message does not say its tenant")
    yield _line("verdict", _verdict(report))


def _topics(report: AuditReport) -> Iterator[str]:
    names = dict.fromkeys(span.topic for span in report.spans)
    partitions = _count(len(report.spans), "partition")
    yield _line("topics", f"{', '.join(names) or 'none'} ({partitions}): {_count(report.messages, 'message')} read")
    for span in report.hidden:
        yield f"{_INDENT}{span.topic} [{span.partition}] could be read up to offset {span.ended} of {span.high} only:"
        yield f"{_INDENT}a producer's transaction is open there; audit again when it has ended"
    if report.missing:
        for span in report.spans:
            if span.low and span.began == span.low:
                oldest = f" ({_ms(span.oldest_ms)})" if span.oldest_ms is not None else ""
                yield f"{_INDENT}{span.topic} [{span.partition}] begins at offset {span.low}{oldest}: earlier messages"
                yield f"{_INDENT}were deleted by the broker (its retention)"


def _missing(report: AuditReport) -> Iterator[str]:
    what = "message" if report.several else "row"
    if not report.missing:
        arrived = report.due - sum(report.set_aside.values())
        all_of_them = f"the {what} is" if arrived == 1 else f"all {arrived} {what}s are"
        yield _line("missing", f"nothing: {all_of_them} in the topics")
        return
    yield _line("missing", f"{_count(report.missing, what)} of {report.due}")
    for each in report.missing_listed:
        yield f"{_INDENT}{each.id}  {_ms(each.at_ms)}  for {each.topic or 'no topic: no routing rule gives it one'}"
    yield from _more(report.missing - report.removed, len(report.missing_listed))
    if report.removed:
        rows = "are of rows that " if report.several else ""
        yield f"{_INDENT}{report.removed} of them {rows}were removed from the table while the topics were read"
    if report.before_slot:
        yield f"{_INDENT}{report.before_slot} of them are older than the slot: init without --backfill skips those"
    named = [*dict.fromkeys(each.id for each in report.missing_listed)][:_NAMED]
    if ids := " ".join(f"--id {each}" for each in named):
        yield f"{_INDENT}to publish them: walrelay replay {ids}"


def _set_aside(report: AuditReport) -> Iterator[str]:
    if total := sum(report.set_aside.values()):
        statuses = ", ".join(f"{count} {status}" for status, count in sorted(report.set_aside.items()))
        yield _line("set aside", f"{_count(total, 'dead letter')} ({statuses}), not missing: walrelay dlq list")
        for each in report.set_aside_listed:
            yield f"{_INDENT}{each.id}  {each.position:20} {each.status:9} {each.error}"
        yield from _more(total, len(report.set_aside_listed))


def _order(report: AuditReport) -> Iterator[str]:
    if not report.misplaced:
        yield _line("order", "first deliveries are in commit order in each partition")
        return
    in_key = f"{report.misplaced_in_key} also within the key" if report.misplaced_in_key else "none within a key"
    yield _line("order", f"{_count(report.misplaced, 'first delivery', 'first deliveries')} out of order, {in_key}")
    for each in report.misplaced_listed:
        yield f"{_INDENT}{_place(each.found)}  behind {each.behind}{'  of its key' if each.key else ''}"
    yield from _more(report.misplaced, len(report.misplaced_listed))
    yield f"{_INDENT}check what else writes to the topic, and whether the database was restored or failed over"
    if report.misplaced_in_key:
        yield f"{_INDENT}consumers that rely on the order of a key may hold an older state than the table"


def _repeated(report: AuditReport) -> Iterator[str]:
    if not report.repeated:
        yield _line("repeated", "nothing")
        return
    what = "message" if report.several else "event"
    times = ", ".join(f"{_count(events, what)} {_times(often)}" for often, events in report.repeated.items())
    note = (
        ""
        if report.delivery == "exactly_once"
        else "; at-least-once delivery allows that; consumers detect it by the id"
    )
    yield _line("repeated", f"{times}{note}")
    yield from _found(report.repeated_listed)
    yield from _more(
        sum((often - 1) * events for often, events in report.repeated.items()), len(report.repeated_listed)
    )


def _verdict(report: AuditReport) -> str:
    if not (report.faults or report.rows):
        return report.verdict
    return click.style(report.verdict, fg="red" if report.faults else "green")


def _found(listed: list[Found]) -> Iterator[str]:
    for each in listed:
        yield f"{_INDENT}{_place(each)}"


def _place(each: Found) -> str:
    where = f"{each.topic} [{each.partition}] at offset {each.offset}"
    return f"{each.id}  {each.position:18} {_ms(each.timestamp_ms)}  {where}"


def _more(total: int, listed: int) -> Iterator[str]:
    if total > listed:
        yield f"{_INDENT}and {total - listed} more (--list)"


def _line(name: str, value: str) -> str:
    return f"{name:14}{value}"


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"


def _times(often: int) -> str:
    return "twice" if often == 2 else f"{often} times"


def _iso(time: str) -> str:
    return f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M:%S} UTC" if time else ""


def _ms(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "time unknown"
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
