"""`walrelay migrate`: settings from those of another relay, and where it stopped."""

from pathlib import Path

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.config import parse
from walrelay.config.migration import migrated, printed
from walrelay.errors import Fatal
from walrelay.operations.takeover import TakeOver, chosen, keeps_parts, offsets, plan, take_over
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring


@click.group()
def migrate() -> None:
    """Take over from another relay: its settings, and where it stopped.

    \b
    Example:
      walrelay migrate debezium application.properties > walrelay.yaml
      walrelay migrate offset data/offsets.dat
    """


@migrate.command()
@click.argument("file", type=click.Path(path_type=Path, readable=False))
def debezium(file: Path) -> None:
    """Make a settings file from that of Debezium's Outbox Event Router.

    FILE is the application.properties of Debezium Server, or a connector's JSON. Prints the settings, and in comments
    what has no counterpart, which environment variables to set, and how to switch. Secrets are not printed. Connects to
    nothing.

    \b
    Example:
      walrelay migrate debezium application.properties > walrelay.yaml
      walrelay migrate debezium connector.json > walrelay.yaml
    """
    try:
        text = _content(file).decode()
    except UnicodeDecodeError as error:
        raise Fatal(f"{file}: not UTF-8 text, from byte {error.start} on") from None
    found = migrated(text, file.name)
    settings = printed(found, file.name)
    parse(settings, "the settings", {name: "postgresql://localhost/x" for name, _ in found.unset})
    click.echo(settings, nl=False)


@migrate.command()
@one_relay
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def offset(relay: Chosen, file: Path, dry_run: bool) -> None:
    """Begin where Debezium stopped, by the offset that it stored.

    FILE is Debezium Server's offset.storage.file.filename, or what Kafka Connect answers to GET
    /connectors/NAME/offsets. Debezium must have ended, and `walrelay init` been run. Its slot moves past what Debezium
    has published; else the last of it would be published again.

    \b
    Example:
      walrelay migrate offset data/offsets.dat
      curl -s connect:8083/connectors/shop/offsets > offsets.json && walrelay migrate offset offsets.json
    """
    settings = relay.settings()
    found = offsets(_content(file), file.name)
    stored = chosen(found, None if settings.debezium is None else settings.debezium.topic_prefix)
    wiring = compose.wiring(settings)
    with Catalog(wiring.dsn) as catalog:
        planned = plan(wiring, catalog, stored, lambda text: click.echo(f"note: {text}", err=True))
        if not dry_run:
            take_over(wiring, catalog, planned)
    click.echo(_said(wiring, planned, dry_run=dry_run))


def _said(wiring: Wiring, planned: TakeOver, *, dry_run: bool) -> str:
    slot, inside = planned.slot, planned.inside
    moves = "would move" if dry_run else "moved"
    where = f"{moves} to {planned.lsn}" if planned.lsn != slot.confirmed_flush_lsn else f"stays at {planned.lsn}"
    text = f"slot {slot.name} {where}: {planned.passed} of the records that wait in it are published"
    if inside is None:
        return text
    part = f"the transaction at {inside.commit_lsn} is published up to record {inside.ordinal} of {planned.records}"
    if keeps_parts(wiring):
        return f"{text}\n{part}; the relay begins behind that one"
    return (
        f"{text}\n{part}, and will be published again from its first. To prevent that, set position.keep to file"
        " and run this again"
    )


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise Fatal(f"{file}: no such file") from None
    except OSError as error:
        raise Fatal(f"{file}: cannot be read: {error.strerror}") from None
