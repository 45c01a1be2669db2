"""`walrelay find`: what happened to an event."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from time import sleep

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.options import Moment, MomentType
from walrelay.cli.remote import RemoteApi, api_option
from walrelay.cli.streams import printable
from walrelay.operations import find as operation
from walrelay.operations.find import FoundRows, RowQuestion, TracedRow
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.connect import set_statement_timeout

_COLORS = {"published": "green", "waiting": "yellow", "unknown": "yellow", "dead_letter": "red", "dropped": "cyan"}
_INDENT = " " * 13
_PATIENCE = 300.0  # seconds for one statement: to search a large table takes its time


@click.command()
@one_relay
@api_option
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--aggregate", nargs=2, metavar="TYPE ID", help="Rows of this aggregate, the latest first.")
@click.option("--since", type=MomentType(), help="Rows written at or after this time; 2h means that long ago.")
@click.option("--until", type=MomentType(), help="Rows written before this time.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most so many rows.")
@click.option("--topic", "topics", multiple=True, help="Also read this topic; may be given repeatedly.")
@click.option(
    "--read-back/--no-read-back", default=True, show_default=True, help="Look for the messages in the topics."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 86_400),
    default=30.0,
    show_default=True,
    help="How long reading the topics may take.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.pass_context
def find(
    ctx: click.Context,
    relay: Chosen,
    api: str,
    ids: tuple[str, ...],
    aggregate: tuple[str, str] | None,
    since: Moment | None,
    until: Moment | None,
    limit: int,
    topics: tuple[str, ...],
    read_back: bool,
    seconds: float,
    as_json: bool,
) -> None:
    """Find rows: written when, published or not, and where they are.

    ID is the event's id. Of each row it says whether the relay has confirmed it, or why not: it waits, it is a dead
    letter, a rule drops it; and it reads the topics from that time on for the partition and offset of its messages.
    What is not known it calls unknown, and says why. A row that is no longer in the table is found by its id among the
    dead letters and in the topics. It changes nothing. The exit code is 1 if an id is found nowhere.

    \b
    Example:
      walrelay find 6a6dafb0-54b5-4e3c-9a5e-0c9f3f1f2d11
      walrelay find --aggregate order 42
      walrelay find --since 10m --no-read-back --json | jq '.rows[] | select(.state == "waiting")'
    """
    question = RowQuestion(
        ids, aggregate, since and since.at, until and until.at, max(limit, len(ids)), "", read_back, topics
    )
    if not question.asks:
        raise click.UsageError("Which rows? Give an id, --aggregate order 42, or --since 10m.")
    if api:
        found = _remotely(RemoteApi(api), relay.name, question, read_back=read_back)
    else:
        wiring = compose.wiring(relay.settings())
        with Catalog(wiring.dsn) as catalog:
            set_statement_timeout(catalog.connection, _PATIENCE)
            found = operation.look(wiring, catalog, question, sleep)
        if read_back:
            found = operation.read_back(wiring, question, found, seconds)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        for line in lines(found):
            click.echo(line)
        for notice in _notices(found, limit):
            click.echo(f"note: {notice}", err=True)
    nowhere = [each for each in found.rows if not (each.in_table or each.copies or each.dead_letter)]
    ctx.exit(1 if nowhere or not found.rows else 0)


def _remotely(api: RemoteApi, name: str, question: RowQuestion, *, read_back: bool) -> FoundRows:
    """By the API, which reads topics for ten seconds at most."""
    kind, key = question.aggregate or (None, None)
    told = api.get(
        f"{api.relay(name).path}/rows",
        id=[*question.ids],
        aggregate_type=kind,
        aggregate_id=key,
        since=question.since and question.since.isoformat(),
        until=question.until and question.until.isoformat(),
        limit=min(question.limit, 500),
        topic=[*question.topics],
        read_back="true" if read_back else "false",
    )
    return operation.of_json(told)


def lines(found: FoundRows) -> Iterator[str]:
    """For people: a line for each row, and below it why, and where it is."""
    if not found.rows:
        yield "no row matches"
    for row in found.rows:
        yield from _row(row)


def _row(row: TracedRow) -> Iterator[str]:
    aggregate = " ".join(filter(None, (row.aggregate_type, row.aggregate_id)))
    state = click.style(f"{row.state.replace('_', ' '):<13}", fg=_COLORS[row.state], bold=True)
    yield state + printable("  ".join(filter(None, (row.id, row.type, aggregate))))
    if times := _times(row):
        yield f"{_INDENT}{times}"
    differ = len({(each.state, each.why) for each in row.destinations}) > 1
    for each in row.destinations if differ else ():
        yield f"{_INDENT}{printable(each.topic)}: {each.state.replace('_', ' ')}, {printable(each.why)}"
    if not differ:
        yield f"{_INDENT}{printable(row.why)}"
    for copy in row.copies:
        sink = "" if copy.sink in ("", "kafka") else f"{copy.sink}: "
        again = "  replayed" if copy.replayed else ""
        where = click.style(f"{sink}{printable(copy.topic)} [{copy.partition}] at offset {copy.offset}", bold=True)
        yield f"{_INDENT}{where}  {_clock(copy.timestamp_ms * 1000)}  position {printable(copy.position)}{again}"
    if row.read_back not in ("done", "not asked"):
        yield f"{_INDENT}topics: reading back was {row.read_back}"


def _times(row: TracedRow) -> str:
    written = f"written {_clock(row.written_at)}" if row.written_at is not None else ""
    committed = f"committed {_clock(row.committed_at)}" if row.committed_at is not None else ""
    at = row.committed_at if row.written_at is None else row.written_at
    ago = f"{_ago(at)} ago" if at is not None else ""
    return ", ".join(
        filter(None, (" and ".join(filter(None, (written, committed))) + " UTC" if at is not None else "", ago))
    )


def _notices(found: FoundRows, limit: int) -> Sequence[str]:
    more = [f"there are more rows: --limit shows more than {limit}"] if found.next else []
    return [*more, *found.notices]


def _clock(microseconds: int) -> str:
    told = operation.iso(microseconds)
    if told is None:
        return "at a time that has no date"
    return f"{datetime.fromisoformat(told):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def _ago(microseconds: int) -> str:
    seconds = max(0.0, datetime.now(UTC).timestamp() - microseconds / 1e6)
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
