"""`walrelay run`: the relays of the file, until a signal."""

from functools import partial
from pathlib import Path

import click

from walrelay import compose
from walrelay.cli import ending
from walrelay.cli.ending import signalled
from walrelay.cli.options import config_option
from walrelay.cli.relays import several_option
from walrelay.config import load_relays
from walrelay.errors import Fatal
from walrelay.observe import EndedFatally, LeftAtOnce, Observer, Observers
from walrelay.relay.spread import Spread
from walrelay.supervise import SideBySide, Stop
from walrelay.telemetry import logs
from walrelay.wiring import Wiring


@click.command()
@config_option
@several_option
@click.option("--from-slot", is_flag=True, help="Begin at the slot's position, and ignore walrelay's own.")
@click.pass_context
def run(ctx: click.Context, config_path: Path, relay_names: tuple[str, ...], from_slot: bool) -> None:
    """Relay until SIGTERM or Ctrl-C, and then stop cleanly.

    The relay first waits for the receipts of messages in flight and confirms them.

    An error that can be retried is retried for ever, and logged as a warning, or as an error from the third failure in
    a row. Any other error ends the process with exit code 1 and a hint.

    All relays of the file run in this process, each for itself. Several instances of the same file share its relays:
    `walrelay docs several-relays`.

    \b
    Example:
      walrelay run -c walrelay.yaml
      walrelay run --relay orders --relay invoices
    """
    relays = load_relays(config_path, relay_names)
    if from_slot and len(relays) > 1:
        raise click.UsageError(f"Which relay? Name one with --relay for --from-slot: {', '.join(relays)}.")
    shared = next(iter(relays.values())).log
    logs.configure(shared.format, shared.level)
    wirings = {name: compose.wiring(settings) for name, settings in relays.items()}
    observers = {name: Observers(_log(name, wiring)) for name, wiring in wirings.items()}

    def leaving() -> None:
        for observer in observers.values():
            observer.saw(LeftAtOnce())

    def ended(name: str, error: Exception, others: int) -> None:
        ending.show_traceback(error)
        known = ending.explained(error)
        observers[name].saw(EndedFatally(known if isinstance(known, Fatal) else Fatal(str(known)), others))

    stop = signalled(leaving)
    if len(wirings) == 1:
        runs = {name: partial(_relay, name, wirings[name], observers[name], stop, from_slot) for name in wirings}
        done = SideBySide(runs, stop, ended).run()
    else:
        with Spread(wirings, observers, stop) as spread:
            runs = {name: partial(_in_turns, name, wirings[name], observers[name], spread) for name in wirings}
            done = SideBySide(runs, stop, ended).run()
    if not done:
        ctx.exit(ending.FAILED)


def _log(name: str, wiring: Wiring) -> logs.LogObserver:
    return logs.LogObserver(slot=wiring.slot, relay=name) if name else logs.LogObserver(slot=wiring.slot)


def _relay(name: str, wiring: Wiring, observer: Observer, stop: Stop, from_slot: bool) -> None:
    if name:
        logs.name_relay(name)
    compose.relay_until(stop, wiring, observer, from_slot=from_slot)


def _in_turns(name: str, wiring: Wiring, observer: Observer, spread: Spread) -> None:
    logs.name_relay(name)
    spread.run(name, lambda turn: compose.relay_until(turn, wiring, observer))
