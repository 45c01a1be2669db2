"""`walrelay init --adopt`: the settings for a table that another worker reads today."""

import json
import os
import re
from collections.abc import Iterator, Set

from walrelay import compose
from walrelay.cli.chosen import Chosen
from walrelay.config import parse, presets
from walrelay.config.documentation import example
from walrelay.config.values import connection_string
from walrelay.errors import SettingsError
from walrelay.identifiers import identifier, qualified_name
from walrelay.operations.adoption import Adoption, adoption, columns_of
from walrelay.postgres.catalog import Catalog

_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})  # which YAML would read otherwise


def settings_for(relay: Chosen, table: str) -> str:
    """A settings file for that table, with comments. The database is that of the settings, or DATABASE_URL."""
    try:
        schema, name = qualified_name(table)
    except ValueError as error:
        raise SettingsError(f"--adopt: {error}") from None
    quoted = f"{identifier(schema)}.{identifier(name)}"
    with Catalog(_dsn(relay)) as catalog:
        columns = columns_of(catalog, quoted)
    return "\n".join([*_lines(adoption(table, columns, _presets())), ""])


def _dsn(relay: Chosen) -> str:
    if relay.path.exists() and relay.path.read_bytes():  # what `> walrelay.yaml` has just made is empty
        return compose.wiring(relay.settings()).dsn
    try:
        return connection_string(os.environ["DATABASE_URL"])
    except KeyError:
        raise SettingsError(
            f"{relay.path}: no such file, and DATABASE_URL is not set",
            hint="DATABASE_URL=postgresql://user@host/database walrelay init --adopt TABLE",
        ) from None
    except ValueError as error:
        raise SettingsError(f"DATABASE_URL {error}") from None


def _presets() -> dict[str, Set[str]]:
    """The columns that each preset names."""
    found: dict[str, Set[str]] = {}
    for name in presets.NAMES:
        wiring = compose.wiring(parse(example(name), name, {"DATABASE_URL": "host=nowhere"}))
        found[name] = {column for column in wiring.outbox.columns if column} | {*wiring.rules.needed[1]}
    return found


def _lines(found: Adoption) -> Iterator[str]:
    if found.preset:
        yield f"# {found.table} has all columns of the preset {found.preset}."
        yield f"# The preset with its comments: walrelay config example --preset {found.preset}"
    else:
        yield f"# {found.table} suits no preset. Check each line below: it goes by names and types alone."
    if found.unread:
        yield f"# Not read: {', '.join(found.unread)}."
    yield "# Then: walrelay config check, walrelay route test --rows 5"
    yield from ["", "source:", "  dsn: ${DATABASE_URL}", "", "outbox:"]
    if found.preset:
        yield f"  preset: {found.preset}"
    yield f"  table: {_yaml(found.table)}"
    if not found.preset:
        yield "  columns:"
        for role, choice in found.roles.items():
            yield (
                f"    {role}: {'null' if choice.column is None else _yaml(choice.column)}".ljust(36) + f"# {choice.why}"
            )
        yield from ["", "route:"]
        yield f"  topic: {_yaml(found.topic)}".ljust(36) + "# your choice; for more topics: walrelay docs routing"
        yield from ["  headers:"] if found.headers else []
        yield from (f"    {_yaml(name)}: {json.dumps(text)}" for name, text in found.headers.items())
    yield from ["", "sink:", "  kind: kafka", "  bootstrap_servers: ${KAFKA_BOOTSTRAP_SERVERS:-localhost:9092}"]


def _yaml(text: str) -> str:
    """The text as YAML reads it back."""
    plain = re.fullmatch(r"[A-Za-z_][\w.-]*", text, re.ASCII) and text.lower() not in _WORDS
    if plain:
        return text
    return json.dumps(text, ensure_ascii=False) if "'" in text or '"' not in text else f"'{text}'"
