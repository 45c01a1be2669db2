"""walrelay.emit and its variants: what writers may call from SQL."""

from collections.abc import Mapping

from walrelay.ddl import script
from walrelay.identifiers import identifier
from walrelay.source.catalog import Catalog
from walrelay.wire.commands import literal


def scripts(table: str, columns: Mapping[str, str], prefix: str | None, max_message_bytes: int) -> dict[str, str]:
    """The SQL of each function by its name. `table` is quoted where it must be; `columns` maps arguments to columns of
    the outbox; without a `prefix` no logical message is an event.
    """
    found = {"check_event_size": script("event_size", limit=str(max_message_bytes))}
    arguments = script("emit_arguments")
    listed = ", ".join(identifier(column) for column in columns.values())
    for name in ("emit", "emit_and_delete"):
        values = ", ".join(f"{name}.{argument}" for argument in columns)
        found[name] = script(name, arguments=arguments, table=table, columns=listed, values=values)
    if prefix is not None:
        found["emit_message"] = script("emit_message", arguments=arguments, prefix=literal(prefix))
    return found


def present(catalog: Catalog, name: str) -> bool:
    """Whether there is a function of that name, whatever its arguments."""
    query = "SELECT 1 FROM pg_proc WHERE proname = %s AND pronamespace = to_regnamespace('walrelay')"
    return bool(catalog.value(query, name))
