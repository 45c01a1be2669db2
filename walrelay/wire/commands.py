"""The texts of replication commands. A replication connection takes no parameters, so names are quoted here."""

from collections.abc import Collection

from walrelay.identifiers import identifier
from walrelay.lsn import LSN

Options = Collection[tuple[str, str]]


def literal(text: str) -> str:
    """`text` as a string of the replication grammar, in which a backslash has no special meaning."""
    if "\0" in text:
        raise ValueError("a text cannot contain the zero byte")
    return "'" + text.replace("'", "''") + "'"


def start_replication(slot: str, start: LSN, options: Options) -> str:
    """START_REPLICATION of a logical slot from `start`, with the output plugin's options."""
    listed = ", ".join(f"{identifier(name)} {literal(value)}" for name, value in options)
    return f"START_REPLICATION SLOT {identifier(slot)} LOGICAL {start} ({listed})"


def create_temporary_slot(slot: str, plugin: str) -> str:
    """CREATE_REPLICATION_SLOT for a slot that ends with its connection and exports no snapshot."""
    return f"CREATE_REPLICATION_SLOT {identifier(slot)} TEMPORARY LOGICAL {identifier(plugin)} NOEXPORT_SNAPSHOT"


def create_slot(slot: str, plugin: str, *, failover: bool) -> str:
    """CREATE_REPLICATION_SLOT for a slot that stays, and exports a snapshot of its consistent point.

    PostgreSQL 14 knows only the first form, which later versions still accept; only the second has `failover`.
    """
    made = f"CREATE_REPLICATION_SLOT {identifier(slot)} LOGICAL {identifier(plugin)}"
    return f"{made} (SNAPSHOT 'export', FAILOVER)" if failover else f"{made} EXPORT_SNAPSHOT"


def pgoutput_options(publication: str, *, binary: bool) -> list[tuple[str, str]]:
    """pgoutput's options: version 1 sends committed transactions only, `messages` brings logical messages too."""
    options = [("proto_version", "1"), ("publication_names", identifier(publication)), ("messages", "true")]
    return [*options, ("binary", "true")] if binary else options
