"""The SQL in `sql/`, the one source of DDL, with the names of the settings put in."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable


def script(name: str, **names: str) -> str:
    """The statements of `sql/<name>.sql`; each `:word` of `names` is replaced (the caller has quoted the values)."""
    text = shipped("sql").joinpath(f"{name}.sql").read_text()
    return re.sub(r"(?<!:):([a-z]+)\b", lambda match: names.get(match[1], match[0]), _without_head(text))


def shipped(directory: str) -> Traversable:
    """`sql` or `docs`: inside the package in a wheel, beside it in a source tree."""
    package = files("walrelay")
    inside = package.joinpath(directory)
    return inside if inside.is_dir() else package.joinpath("..", directory)


def _without_head(text: str) -> str:
    """The script without its opening comment, which explains the placeholders."""
    lines = text.splitlines()
    while lines and lines[0].startswith("--"):
        lines.pop(0)
    return "\n".join(lines) + "\n"
