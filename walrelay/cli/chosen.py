"""Which relay of the settings file a command is for. The one place that decides it.

A command that works on one relay needs `--relay` only if the file has several. A command that only looks, and `init`,
do one relay after the other if none is named, each below a heading, and end with the worst exit code.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import click

from walrelay.cli import ending
from walrelay.cli.options import config_option
from walrelay.config import Settings, load_contacts, load_relays
from walrelay.errors import SettingsError
from walrelay.wiring import RelayContact

_DEFAULT = Path("walrelay.yaml")


class Chosen(NamedTuple):
    """A relay of the file at `path`. `name`: empty for the only one. `loaded`: its settings, if they were read.
    `several`: the command is called for others too.
    """

    path: Path
    name: str = ""
    loaded: Settings | None = None
    several: bool = False

    def settings(self) -> Settings:
        """Reads the file. SettingsError if it cannot be used; a usage error if it has several relays."""
        if self.loaded is not None:
            return self.loaded
        left_out: list[SettingsError] = []
        relays = load_relays(self.path, [self.name] if self.name else [], left_out)
        if len(relays) + len(left_out) > 1:
            raise click.UsageError(f"Which relay? Name one with --relay: {', '.join(relays)}.")
        (settings,) = relays.values()
        return settings

    @property
    def arguments(self) -> str:
        """What a command needs on its command line to be for this relay."""
        config = f" -c {quote(str(self.path))}" if self.path != _DEFAULT else ""
        return config + (f" --relay {self.name}" if self.name else "")


_one = click.option("--relay", "relay_name", metavar="NAME", default="", help="The relay, if the file has several.")
several_option = click.option(
    "--relay", "relay_names", metavar="NAME", multiple=True, help="Only this relay of the file; may be repeated."
)
"""The command gets it as `relay_names: tuple[str, ...]`, empty for all relays."""


def one_relay(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options --config and --relay of a command that works on one relay; it gets them as `relay: Chosen`."""

    @wraps(function)
    def command(*args: Any, config_path: Path, relay_name: str, **options: Any) -> Any:
        return function(*args, relay=Chosen(config_path, relay_name), **options)

    return config_option(_one(command))


def each_relay(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options --config and --relay of a command that is called for each relay in turn, as `relay: Chosen`. Its
    option `as_json` leaves out the headings; with `adopt` there may be no relay yet. What ends it for one relay does
    not keep it from the next.
    """

    @wraps(function)
    def command(*args: Any, config_path: Path, relay_names: tuple[str, ...], **options: Any) -> None:
        if options.get("adopt") is not None:
            function(*args, relay=Chosen(config_path, "".join(relay_names[:1])), **options)
            return
        left_out: list[SettingsError] = []
        relays = load_relays(config_path, relay_names, left_out)
        several = len(relays) + len(left_out) > 1
        chosen = [Chosen(config_path, *each, several) for each in relays.items()]
        if not several:
            function(*args, relay=chosen[0], **options)
        else:
            codes = [ending.report(each) for each in left_out]
            codes += [_called(function, args, each, options) for each in chosen]
            click.get_current_context().exit(max(codes))

    return config_option(several_option(command))


def _called(function: Callable[..., Any], args: tuple[Any, ...], relay: Chosen, options: dict[str, Any]) -> int:
    if not options.get("as_json"):
        click.echo(f"== {relay.name}")
    try:
        function(*args, relay=relay, **options)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.ClickException, click.Abort):
        raise
    except Exception as error:
        return ending.report(error, f"{relay.name}: ")
    return ending.DONE


def named_relay(relay: Chosen, name: str) -> tuple[str, RelayContact]:
    """The relay of that name, or with that slot, for a command that talks to it through its database; a usage error if
    there is none. The name of a relay without one is that of its slot.
    """
    found = load_contacts(relay.path, [relay.name] if relay.name else [])
    by_name = {key or each.slot: key for key, each in found.usable.items()} | {key: key for key in found.unusable}
    names = ", ".join(by_name)
    if not name:
        if len(by_name) > 1:
            raise click.UsageError(f"Which relay? Name one with --relay: {names}.")
        ((shown, key),) = by_name.items()
        return shown, found.one(key)
    of_slot = {each.slot: key or each.slot for key, each in found.usable.items()}
    shown = name if name in by_name else of_slot.get(name, "")
    if not shown:
        raise click.UsageError(f"There is no relay {name!r}: the file has {names}.")
    return shown, found.one(by_name[shown])
