"""`walrelay migrate`: settings from those of another relay."""

from pathlib import Path

import click

from walrelay.config import parse
from walrelay.config.migration import migrated, printed
from walrelay.errors import Fatal


@click.group()
def migrate() -> None:
    """Make a settings file from that of another relay.

    \b
    Example:
      walrelay migrate debezium application.properties > walrelay.yaml
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
        text = file.read_text("utf-8")
    except FileNotFoundError:
        raise Fatal(f"{file}: no such file") from None
    except OSError as error:
        raise Fatal(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Fatal(f"{file}: not UTF-8 text, from byte {error.start} on") from None
    found = migrated(text, file.name)
    settings = printed(found, file.name)
    parse(settings, "the settings", {name: "postgresql://localhost/x" for name, _ in found.unset})
    click.echo(settings, nl=False)
