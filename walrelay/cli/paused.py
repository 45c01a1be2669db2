"""Which relay of the file `walrelay pause` and `walrelay resume` are for."""

import click

from walrelay.cli.chosen import Chosen
from walrelay.config import Settings, load_relays
from walrelay.errors import SettingsError


def named_relay(relay: Chosen, name: str) -> tuple[str, Settings]:
    """The relay of that name, or with that slot; a usage error if there is none. The name of a relay without one is
    that of its slot.
    """
    left_out: list[SettingsError] = []
    loaded = load_relays(relay.path, [relay.name] if relay.name else [], left_out)
    relays = {key or each.source.slot: each for key, each in loaded.items()}
    names = ", ".join(relays)
    if not name:
        if len(relays) + len(left_out) > 1:
            raise click.UsageError(f"Which relay? Name one with --relay: {names}.")
        return next(iter(relays.items()))
    of_slot = {each.source.slot: key for key, each in relays.items()}
    found = name if name in relays else of_slot.get(name)
    if found is None:
        raise click.UsageError(f"There is no relay {name!r}: the file has {names}.")
    return found, relays[found]
