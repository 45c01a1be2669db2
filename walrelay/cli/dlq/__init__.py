"""`walrelay dlq`: the dead letters, one command a module."""

import click

from walrelay.cli.dlq.discard import discard
from walrelay.cli.dlq.export import export
from walrelay.cli.dlq.listing import listing
from walrelay.cli.dlq.replay import replay
from walrelay.cli.dlq.show import show


@click.group()
def dlq() -> None:
    """List, show, replay or discard the dead letters.

    They are what was refused, not routed or not read, kept whole: `walrelay docs dead-letters`.

    \b
    Example:
      walrelay dlq list
      walrelay dlq replay --topic 'outbox.event.order*'
    """


for command in (listing, show, replay, discard, export):
    dlq.add_command(command)
