"""`walrelay run`: the relay, until a signal."""

from pathlib import Path

import click

from walrelay import compose
from walrelay.cli import ending
from walrelay.cli.ending import signalled
from walrelay.cli.options import config_option
from walrelay.config import load
from walrelay.errors import Fatal, SettingsError
from walrelay.observe import EndedFatally, LeftAtOnce, Observers
from walrelay.telemetry import logs


@click.command()
@config_option
@click.option("--from-slot", is_flag=True, help="Begin at the slot's position, and ignore walrelay's own.")
@click.pass_context
def run(ctx: click.Context, config_path: Path, from_slot: bool) -> None:
    """Relay until SIGTERM or Ctrl-C, and then stop cleanly.

    The relay first waits for the receipts of messages in flight and confirms them.

    An error that can be retried is retried for ever, and logged as a warning, or as an error from the third failure in
    a row. Any other error ends the process with exit code 1 and a hint.

    \b
    Example:
      walrelay run -c walrelay.yaml
    """
    settings = load(config_path)
    logs.configure(settings.log.format, settings.log.level)
    observers = Observers(logs.LogObserver(slot=settings.source.slot))
    try:
        stop = signalled(lambda: observers.saw(LeftAtOnce()))
        compose.relay_until(stop, compose.wiring(settings), observers, from_slot=from_slot)
    except (SettingsError, click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        ending.show_traceback(error)
        known = ending.explained(error)
        observers.saw(EndedFatally(known if isinstance(known, Fatal) else Fatal(str(known))))
        ctx.exit(ending.FAILED)
