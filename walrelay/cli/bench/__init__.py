"""`walrelay bench`: latency and cost beside polling; throughput beside what PostgreSQL can give."""

import click

from walrelay.cli.bench.latency import latency
from walrelay.cli.bench.throughput import throughput


@click.group()
def bench() -> None:
    """Measure latency beside polling, and throughput.

    A benchmark starts a PostgreSQL of its own, and a Kafka if one is installed (`make servers` fetches one), and leaves
    nothing behind. On servers of yours it makes what it needs under the name walrelay_bench (schema, slot,
    publication) and topics that begin with walrelay.bench, and removes all of it at the end.
    """


for command in (latency, throughput):
    bench.add_command(command)
