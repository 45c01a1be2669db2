"""The command line: one command a module, thin. `cli.ending` has the exit codes."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import click

from walrelay import __version__
from walrelay.cli import ending, streams

SUMMARIES = {
    "admin": "Serve the admin API, or make a token for it.",
    "audit": "Check that every row of a period is in the topics, in order.",
    "bench": "Measure latency beside polling, and throughput.",
    "cleanup": "Delete old rows that were published and are confirmed.",
    "compare": "Compare the topics of another publisher with the relay's.",
    "config": "Check the settings file, print an example or its JSON Schema.",
    "demo": "Run a demo: commit events, relay them, count what arrived.",
    "dlq": "List, show, edit, replay, discard or export the dead letters.",
    "docs": "Print a page of the manual, a section, or the list of pages.",
    "doctor": "List what keeps a relay from starting, each with its fix.",
    "drain": "Publish what was committed until now, then pause.",
    "drop": "Remove the slot and the publication.",
    "events": "Show the last events that a relay published.",
    "find": "Find rows: written when, published or not, and where they are.",
    "init": "Make the outbox table, walrelay.emit, publication and slot.",
    "migrate": "Take over from another relay: its settings, and where it stopped.",
    "pause": "Pause a relay: it publishes nothing until it is resumed.",
    "recover": "Replace a lost slot and publish what it had not delivered.",
    "relays": "List the relays: who leads, state, lag, pauses.",
    "replay": "Publish rows of the outbox table again.",
    "report": "Write what somebody needs who helps: no payload, no secret.",
    "restart": "Let a relay begin anew, without a new process.",
    "resume": "Resume a relay that was paused.",
    "route": "Try the routing rules on records, and see what each becomes.",
    "run": "Relay until SIGTERM or Ctrl-C, and then stop cleanly.",
    "sinks": "List the sinks that are installed, and what each can do.",
    "skip": "Let the relay skip what cannot be read.",
    "status": "Show the slot's position, its lag and the WAL it holds back.",
    "tail": "Print what waits in the slot, without moving its position.",
    "top": "Watch the relays: rates, lag, WAL, latency, errors.",
}
"""By command, which is also its module: the list is shown without importing any of them."""


class _Commands(click.Group):
    """Imports only the command that is used, and always ends the process itself, with a message and an exit code (see
    `cli.ending`).
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        wanted = [cmd_name] if cmd_name in SUMMARIES else SUMMARIES  # for click's suggestions
        with _interrupted_in_one_line():
            for name in wanted:
                if name not in self.commands:
                    from walrelay.cli.options import guarded

                    self.add_command(guarded(getattr(import_module(f"walrelay.cli.{name}"), name)))
        if not gc.isenabled():
            gc.freeze()  # what was imported stays: no collection has to look at it again
            gc.enable()
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def main(self, *arguments: Any, standalone_mode: bool = True, **options: Any) -> Any:
        run = partial(super().main, *arguments, standalone_mode=False, **options)
        if not standalone_mode:
            return run()
        streams.prepare()
        sys.exit(ending.exit_code(run))

    def invoke(self, ctx: click.Context) -> Any:
        with _interrupted_in_one_line():
            from walrelay.telemetry import logs
        logs.configure("auto", "warning")  # until the command has read its settings
        return super().invoke(ctx)


@contextmanager
def _interrupted_in_one_line() -> Iterator[None]:
    """Around imports, which take a moment: click would print an empty line, as after a prompt."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise click.Abort from interrupt


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="walrelay")
def main() -> None:
    """Publish a PostgreSQL outbox to a broker: read the WAL, publish in commit order, confirm only what is durable.

    \b
    Example:
      walrelay config example > walrelay.yaml
      walrelay init
      walrelay doctor
      walrelay run
    """
