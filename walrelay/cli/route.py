"""`walrelay route test`: what the routing rules make of records."""

import json
import sys
from collections.abc import Iterator

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.dead_letter import shown
from walrelay.model import AnyRecord, Message
from walrelay.operations.route_trial import Routed, in_slot, in_table, members, record_of_json, routed, router_of_given
from walrelay.postgres.catalog import Catalog
from walrelay.route import Routing
from walrelay.wiring import Wiring


@click.group()
def route() -> None:
    """Try the routing rules on records, and see what each becomes.

    \b
    Example:
      walrelay tail --limit 1 | walrelay route test
      walrelay route test --rows 5
    """


@route.command("test")
@one_relay
@click.option("--rows", type=click.IntRange(1, 10_000), help="Try the last so many rows of the outbox table.")
@click.option("--slot", type=click.IntRange(1, 10_000), help="Try the first so many records that wait in the slot.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each record.")
@click.pass_context
def trial(ctx: click.Context, relay: Chosen, rows: int | None, slot: int | None, as_json: bool) -> None:
    """Show which rule routes a record, why others do not, and what of.

    Without --rows and --slot it reads records from stdin, one JSON object a line, in the form that `walrelay tail`
    prints: only `id` is needed. Nothing is published, and the slot stays where it is. If a record is refused, the exit
    code is 1.

    \b
    Example:
      echo '{"id": "1", "type": "placed", "payload": {"a": 1}}' | walrelay route test
      walrelay route test --rows 5
      walrelay route test --slot 5 --json
    """
    if rows and slot:
        raise click.UsageError("--rows and --slot exclude each other.")
    wiring = compose.wiring(relay.settings())
    refused = False
    for router, record in _records(wiring, rows, slot):
        found = routed(wiring, router, record)
        refused |= bool(found.refusal)
        click.echo(json.dumps(members(found), ensure_ascii=False) if as_json else "\n".join(_lines(found)))
    ctx.exit(1 if refused else 0)


def _records(wiring: Wiring, rows: int | None, slot: int | None) -> Iterator[tuple[Routing, AnyRecord]]:
    if not rows and not slot:
        router = router_of_given(wiring, lambda: Catalog(wiring.dsn))
        yield from ((router, record) for record in _given())
        return
    with Catalog(wiring.dsn) as catalog:
        router = wiring.router(catalog)
        records = in_table(wiring, catalog, rows) if rows else in_slot(wiring, catalog, slot or 1)
        yield from ((router, record) for record in records)


def _given() -> Iterator[AnyRecord]:
    return (record_of_json(line) for line in sys.stdin if line.strip())


def _lines(found: Routed) -> Iterator[str]:
    yield f"record {found.id} at {found.position}"
    for each in found.verdicts:
        verdict = f"does not match: {each.why_not}" if each.why_not else "drops it" if each.drops else "matches"
        yield f"  rule {each.rule}: {verdict}"
    for message in found.messages:
        yield from _message_lines(message)
    if found.refusal:
        yield f"  refused: {found.refusal}"


def _message_lines(message: Message) -> Iterator[str]:
    yield f"  topic  {_text(message.topic)}"
    yield f"  key    {_text(message.key)}"
    for name, value in message.headers:
        yield f"  header {_text(name)}: {_text(value)}"
    yield f"  value  {_text(message.value)}"


def _text(value: str | bytes | None) -> str:
    text = shown(value)
    if text is None:
        return "(null)"
    return text if isinstance(text, str) and text.isprintable() else json.dumps(text)
