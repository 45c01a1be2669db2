"""`walrelay run`: the relays of the file, in this process or in several, until a signal."""

import os
import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

import click

from walrelay import compose
from walrelay.cli import databases, ending, processes
from walrelay.cli.chosen import several_option
from walrelay.cli.ending import signalled
from walrelay.cli.options import config_option
from walrelay.config import Settings, load_databases, load_relays
from walrelay.control.database import Controls
from walrelay.control.relay import RelayControl
from walrelay.errors import Fatal
from walrelay.observe import EndedFatally, LeftAtOnce, Observer, Observers
from walrelay.relay.spread import Spread
from walrelay.supervise import Backoff, SideBySide, Stop
from walrelay.telemetry import logs
from walrelay.unforeseen import explained
from walrelay.wiring import Wiring


@click.command()
@config_option
@several_option
@click.option(
    "--processes",
    "count",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="Share the relays over N processes, which are started again if they die.",
)
@click.option("--from-slot", is_flag=True, help="Begin at the slot's position, and ignore walrelay's own.")
@click.pass_context
def run(ctx: click.Context, config_path: Path, relay_names: tuple[str, ...], count: int, from_slot: bool) -> None:
    """Relay until SIGTERM or Ctrl-C, and then stop cleanly.

    The relay first waits for the receipts of messages in flight and confirms them.

    An error that can be retried is retried for ever, and logged as a warning, or as an error from the third failure in
    a row. Any other error ends the process with exit code 1 and a hint.

    All relays of the file run in this process, each for itself. Several instances of the same file share its relays,
    and a query for databases is asked again and again: `walrelay docs several-relays`.

    \b
    Example:
      walrelay run -c walrelay.yaml
      walrelay run --relay orders --relay invoices
      walrelay run --processes 2
    """
    query = None if relay_names else load_databases(config_path)
    if query is not None:
        if count > 1 or from_slot:
            option, how = (
                ("--processes", "start several instances instead") if count > 1 else ("--from-slot", "name one")
            )
            raise click.UsageError(f"A query finds the databases, so {option} needs --relay NAME; or {how}.")
        ctx.exit(databases.run(query))
    relays = load_relays(config_path, relay_names)
    if from_slot and len(relays) > 1:
        raise click.UsageError(f"Which relay? Name one with --relay for --from-slot: {', '.join(relays)}.")
    shares = processes.shares([*relays], count)
    shared = next(iter(relays.values()))
    logs.configure(shared.log.format, shared.log.level, shared=len(shares) > 1)
    wirings = {name: compose.wiring(settings) for name, settings in relays.items()}
    works = [
        _Relays({name: wirings[name] for name in share}, from_slot, shared, number)
        for number, share in enumerate(shares)
    ]
    if len(works) == 1:
        ctx.exit(works[0].run())
    children = [processes.Work([*work.wirings], work.run_under_parent) for work in works]
    ctx.exit(processes.Processes(children, Observers(logs.LogObserver()), Backoff()).run())


class _Relays(NamedTuple):
    """What one process does."""

    wirings: Mapping[str, Wiring]
    from_slot: bool
    shared: Settings
    process: int

    def run_under_parent(self, orders: int) -> int:
        """In a process that another one has forked; see `processes.obey`."""
        return ending.exit_code(lambda: self.run(orders))

    def run(self, orders: int | None = None) -> int:
        """Returns the exit code when all relays have ended."""
        with compose.monitored(self.shared, logs.LogObserver(), self.process) as watching, Controls() as controls:
            return self._run(watching, controls, orders)

    def _run(self, watching: compose.Watching, controls: Controls, orders: int | None) -> int:
        control, observers = dict[str, RelayControl](), dict[str, Observers]()
        for name, wiring in self.wirings.items():
            watchers = watching.watch(name, wiring)
            made = control[name] = controls.add(name, wiring, watchers)
            observers[name] = Observers(_log(name, wiring), *watchers, made, made.activity)

        def leaving() -> None:
            for observer in observers.values():
                observer.saw(LeftAtOnce())

        def leave() -> NoReturn:
            try:
                leaving()
            finally:
                os._exit(ending.BY_SIGNAL + signal.SIGTERM)

        def ended(name: str, error: Exception, others: int) -> None:
            ending.show_traceback(error)
            known = explained(error)
            observers[name].saw(EndedFatally(known if isinstance(known, Fatal) else Fatal(str(known)), others))

        stop = signalled(leaving)
        if orders is not None:
            processes.obey(orders, stop, leave)
        if len(self.wirings) == 1:
            ((name, wiring),) = self.wirings.items()
            alone = {name: partial(_relay, name, wiring, observers[name], stop, self.from_slot, control[name])}
            done = SideBySide(alone, stop, ended).run()
        else:
            with Spread(self.wirings, observers, stop) as spread:
                runs = {
                    name: partial(_in_turns, name, each, spread, control[name]) for name, each in self.wirings.items()
                }
                done = SideBySide(runs, stop, ended).run()
        return ending.DONE if done else ending.FAILED


def _log(name: str, wiring: Wiring) -> logs.LogObserver:
    return logs.LogObserver(slot=wiring.slot, relay=name) if name else logs.LogObserver(slot=wiring.slot)


def _relay(name: str, wiring: Wiring, observer: Observer, stop: Stop, from_slot: bool, control: RelayControl) -> None:
    if name:
        logs.name_relay(name)
    compose.relay_until(stop, wiring, observer, from_slot=from_slot, control=control)


def _in_turns(name: str, wiring: Wiring, spread: Spread, control: RelayControl) -> None:
    logs.name_relay(name)
    spread.run(name, lambda turn, observer: compose.relay_until(turn, wiring, observer, control=control))
