"""`walrelay sinks`: where events can go."""

import json
from collections.abc import Iterator

import click

from walrelay.publish.kinds import InstalledKind, kinds


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def sinks(as_json: bool) -> None:
    """List the sinks that are installed, and what each can do.

    A sink whose client library is missing is named with the command that installs it.

    \b
    Example:
      walrelay sinks
      walrelay sinks --json | jq -r '.[].kind'
    """
    found = [*kinds()]
    if as_json:
        click.echo(json.dumps([_document(kind) for kind in found], indent=2))
    else:
        click.echo("\n\n".join("\n".join(_lines(kind)) for kind in found))


def _document(kind: InstalledKind) -> dict[str, object]:
    traits = None if kind.traits is None else kind.traits._asdict()
    return {**kind._asdict(), "traits": traits}


def _lines(kind: InstalledKind) -> Iterator[str]:
    yield kind.kind if kind.package == "walrelay" else f"{kind.kind} (of the package {kind.package})"
    if kind.trouble:
        yield f"  not usable: {kind.trouble}" + (f": {kind.install}" if kind.install else "")
    told = {} if kind.traits is None else {**kind.traits._asdict()}
    rows = {
        "durable": told.get("durable"),
        "order": told.get("order"),
        "delivery": ", ".join(kind.delivery),
        "repeats": told.get("repeats"),
        "headers": told.get("headers"),
        "size": told.get("size"),
        "commands": ", ".join(kind.commands),
    }
    for name, text in rows.items():
        if text:
            yield f"  {name:<10}{text}"
