"""`walrelay tail`: the decoded inserts on stdout, with the slot left where it is."""

import sys

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.ending import signalled
from walrelay.cli.streams import Output, ReaderGone
from walrelay.operations import doctor
from walrelay.operations.tail import Form, Tail
from walrelay.postgres.catalog import Catalog

_FEW = 1000  # records of a backlog that are printed by default


@click.command()
@one_relay
@click.option("-f", "--follow", is_flag=True, help="Print what is committed from now on, until Ctrl-C.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    help=f"Print at most this many records; 0 means all.  [default: {_FEW}; with --follow all]",
)
@click.option(
    "--format", "form", type=click.Choice(["walrelay", "wal2json"]), default="walrelay", show_default=True,
    help="What a line looks like.",
)  # fmt: skip
def tail(relay: Chosen, follow: bool, limit: int | None, form: Form) -> None:
    """Print what waits in the slot, without moving its position.

    Without --follow it peeks into the slot, which the server allows only while no relay reads it. If --follow is given,
    a temporary slot beside it shows what is committed from now on; it holds no WAL back and ends with the command.

    The format walrelay is one JSON object a record: position, committed_at and the fields of the outbox as they are
    in the row, before routing. A payload (or headers) that is a JSON object or array is printed as it is, digit for
    digit; other text is a string; what is not UTF-8 is {"base64": ...}.

    The format wal2json is what wal2json prints for the same inserts with format-version 2 and its other options at
    their defaults, byte for byte and with either output plugin: a line B (begin), a line I for each row or M for each
    logical message that is a record, and a line C (commit). A transaction without a record prints nothing. What
    pgoutput does not send cannot be printed: generated columns, the names of partitions, rows outside of the
    publication's row filter; then a note on stderr says so. Columns that were generated earlier, and earlier names of
    domains and renamed types, are not known either.

    \b
    Example:
      walrelay tail --limit 1
      walrelay tail --follow | jq .payload
      walrelay tail --limit 0 --format wal2json > waiting.jsonl
    """
    wiring = compose.wiring(relay.settings())
    stop = signalled() if follow else None
    most = limit if limit is not None else 0 if follow else _FEW
    with Catalog(wiring.dsn) as catalog:
        doctor.refuse(catalog, wiring, "follow" if follow else "tail")
        tail = Tail(wiring, catalog, form, Output(sys.stdout.fileno()), most, _note)
        for remark in tail.remarks(doctor.told(catalog, wiring, "tail")):
            _note(remark)
        try:
            if stop is not None:
                tail.follow(stop)
            else:
                tail.waiting()
                if tail.done and limit is None:
                    _note(f"these were the first {most} records; --limit 0 prints all that wait")
        except ReaderGone:
            return


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
