"""Presets: what the settings say about an outbox table that another worker reads today.

Each is a part of a settings file, with comments. It lies below the user's own file: whatever that one says counts,
setting by setting; a list, such as `routes`, counts as a whole.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

import yaml

PresetName = Literal[
    "walrelay", "ef-core", "event-log", "multi-tenant", "spring-cloud-stream", "event-store", "debezium"
]

NAMES: tuple[PresetName, ...] = get_args(PresetName)


def text(name: PresetName) -> str:
    """The preset as a part of a settings file; empty for walrelay's own table, which the defaults describe."""
    if name == "walrelay":
        return ""
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


@cache
def fragment(name: PresetName) -> Mapping[str, Any]:
    """What the preset says, by section."""
    return yaml.safe_load(text(name)) or {}


def named(settings: Any) -> PresetName | None:
    """The preset that settings as they were read name; None where they name none that is known."""
    outbox = settings.get("outbox") if isinstance(settings, Mapping) else None
    name = outbox.get("preset") if isinstance(outbox, Mapping) else None
    return next((each for each in NAMES if each == name), None)


def applied(settings: Any) -> Any:
    """Settings as they were read, over those of the preset that they name."""
    name = named(settings)
    return settings if name is None else _over(fragment(name), settings)


def says(settings: Any, path: tuple[str | int, ...]) -> bool:
    """Whether the preset that the settings name has a setting at `path`."""
    name = named(settings)
    value: Any = {} if name is None else fragment(name)
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return False
    return name is not None


def _over(below: Any, own: Any) -> Any:
    if not isinstance(below, Mapping) or not isinstance(own, Mapping):
        return own
    return {**below, **{key: _over(below[key], value) if key in below else value for key, value in own.items()}}
