"""`walrelay compare`: the topics of another publisher beside the relay's, message by message."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.ending import signalled
from walrelay.cli.options import Moment, MomentType, waiting
from walrelay.cli.progress import count
from walrelay.operations.compare import ComparedField, CompareReport, CompareRequest, Deviation, Marked, comparing
from walrelay.operations.compare.report import ROW
from walrelay.publish import TopicMessage


class _FieldType(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic since click 8.4
    name = "FIELD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ComparedField:
        try:
            return value if isinstance(value, ComparedField) else ComparedField.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


_FIELD = _FieldType()


@click.command()
@one_relay
@click.option("--old", "old", multiple=True, metavar="TOPIC", help="A topic of the other publisher.")
@click.option("--new", "new", multiple=True, metavar="TOPIC", help="The relay's topic for the same events.")
@click.option("--marked", metavar="SQL", help="Instead of topics: rows of which this holds are those of OLD.")
@click.option("--marked-at", metavar="COLUMN", help="When a row was marked, for the latency of OLD.")
@click.option("--id", "id_", type=_FIELD, default="header.id", show_default=True, help="Where the event's id is.")
@click.option("--old-id", type=_FIELD, help="Where it is in OLD, if that differs.")
@click.option("--ignore-header", "ignored", multiple=True, metavar="NAME", help="Not to be compared; * is allowed.")
@click.option("--created", type=_FIELD, help="When the event was written. Default: the relay's timestamp.")
@click.option("--from", "since", type=MomentType(), help="Messages since this time. Default: from where both begin.")
@click.option("--to", "until", type=MomentType(), help="Messages before this time. Default: now.")
@click.option("--follow", is_flag=True, help="Go on with the messages that come, until Ctrl-C.")
@click.option(
    "--wait", "patience", type=waiting, default=10.0, show_default=True, help="Seconds to wait for a counterpart."
)
@click.option(
    "--window",
    type=click.IntRange(1, 10_000_000),
    default=100_000,
    show_default=True,
    help="Messages of each side that may wait for their counterpart.",
)
@click.option(
    "--list",
    "listed",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Print at most this many messages of each kind of difference.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; the last is the summary.")
@click.pass_context
def compare(
    ctx: click.Context,
    relay: Chosen,
    old: tuple[str, ...],
    new: tuple[str, ...],
    marked: str | None,
    marked_at: str | None,
    id_: ComparedField,
    old_id: ComparedField | None,
    ignored: tuple[str, ...],
    created: ComparedField | None,
    since: Moment | None,
    until: Moment | None,
    follow: bool,
    patience: float,
    window: int,
    listed: int,
    as_json: bool,
) -> None:
    """Compare the topics of another publisher with the relay's.

    It pairs messages by their id (header.NAME, payload.NAME.NAME or key), or by key and value where one has no id, and
    says what differs in topic, key, value, headers and the order within a key. --old and --new may be repeated: the
    first --old corresponds to the first --new.

    With --marked it compares the rows that the other publisher marked, as today's rules publish them, with the topics
    of the rules: rows that are not there, messages of rows without a mark, and what differs.

    It reads the topics as a consumer would, and changes nothing. The exit code is 1 if anything differs.

    \b
    Example:
      walrelay compare --old orders --new shadow.orders
      walrelay compare --old orders --new shadow.orders --old-id payload.event_id --follow
      walrelay compare --marked 'published_at IS NOT NULL' --marked-at published_at
    """
    _refuse(ctx, len(old), len(new), marked, marked_at)
    if follow and until:
        raise click.UsageError("--follow and --to exclude each other.")
    request = CompareRequest(
        topics=list(zip(old, new, strict=True)),
        ids=(old_id or id_, id_),
        since=since and since.at,
        until=until and until.at,
        follow=follow,
        patience=patience,
        ignored=ignored,
        created=created,
        window=window,
        listed=listed,
        marked=None if marked is None else Marked(marked, marked_at or ""),
    )
    wiring, stop = compose.wiring(relay.settings()), signalled()
    with comparing(wiring, request, stop.is_set) as (deviations, report):
        for each in deviations:
            click.echo(json.dumps(each.as_json()) if as_json else "\n".join(_told(each, wiring.table)))
    if marked and not as_json:
        click.echo(_line("OLD", f"rows of {wiring.table} where {marked}"))
    click.echo(json.dumps(report.as_json()) if as_json else "\n".join(lines(report)))
    if stop.is_set() and not follow:
        click.echo("stopped before the end", err=True)
        ctx.exit(1)
    ctx.exit(1 if report.faults else 0)


def _refuse(ctx: click.Context, old: int, new: int, marked: str | None, marked_at: str | None) -> None:
    """Options that do not go together."""
    if marked is None and marked_at is not None:
        raise click.UsageError("--marked-at has no effect without --marked.")
    if marked is None and not old and not new:
        raise click.UsageError("Name topics with --old and --new, or rows with --marked.")
    if marked is not None:
        for name in ("old", "new", "old_id", "created", "follow"):
            if ctx.params[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} has no effect with --marked.")
    if old != new:
        raise click.UsageError(f"Each --old needs its --new: there are {old} and {new}.")


def _told(deviation: Deviation, table: str) -> Iterator[str]:
    places = " and ".join(_place(each, table) for each in (deviation.old, deviation.new) if each is not None)
    yield f"{deviation.verdict:14}{deviation.id or 'no id'}  {places}"
    for each in deviation.differences:
        yield f"{'':14}{each.what}: {each.old} / {each.new}" if each.old else f"{'':14}{each.what}: {each.new}"


def lines(report: CompareReport) -> Iterator[str]:
    """The report as lines of text."""
    yield _line("read", f"{count(report.read[0], 'message')} of OLD, {report.read[1]} of NEW")
    yield _line("pairs", f"{report.pairs}, {report.identical} of them identical")
    for what, pairs in report.differing.most_common():
        yield _line("", f"{pairs} with another {what}")
    if ignored := ", ".join(f"{what} ({count(pairs, 'pair')})" for what, pairs in report.ignored.most_common()):
        yield _line("ignored", f"{ignored}, by --ignore-header or because only the relay gives it")
    yield from _sides("alone", report.alone, "without a counterpart")
    if report.given_up_early:
        yield _line("", f"{report.given_up_early} of them given up because too many waited: try a larger --window")
    yield from _sides("beside", report.beside, "not judged: outside of what was to be compared")
    yield from _sides("repeated", report.repeated, "with an id that came before: not compared")
    yield from _sides("waiting", report.waiting, "whose counterpart may still come")
    for name, latency in zip(("OLD", "NEW"), report.latency, strict=True):
        if (found := latency.as_json()) is not None:
            half, most = found["p50"], found["p99"]
            yield _line("latency", f"{name}: half within {half} ms, 99 % within {most} ms, at most {found['max']} ms")
    faults = ", ".join(report.faults)
    yield _line("verdict", click.style(faults, fg="red") if faults else click.style("nothing differs", fg="green"))


def _sides(name: str, counts: list[int], what: str) -> Iterator[str]:
    if any(counts):
        yield _line(name, f"{counts[0]} of OLD, {counts[1]} of NEW {what}")


def _place(message: TopicMessage, table: str) -> str:
    at = f"{datetime.fromtimestamp(max(0, message.timestamp_ms) / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    if message.partition == ROW:
        return f"row of {table} ({at}) for {message.topic or 'no topic'}"
    return f"{message.topic} [{message.partition}] at offset {message.offset} ({at})"


def _line(name: str, value: str) -> str:
    return f"{name:14}{value}"
