"""Who needs which right: the one list. deploy/grants.sql and its copy in docs/security.md, the doctor's advice and the
hints of commands are made of it.
"""

from collections.abc import Container
from typing import NamedTuple

OWN = "walrelay"  # the schema
OUTBOX = "outbox"  # the table of the settings; all others are in the schema walrelay

REFUSALS = "refusals that are not `stop`"
POSITION = "position.keep: table"
RETENTION = "retention, where no other role cleans up"
FROM_SLOT = "run --from-slot; to be revoked when it runs"
NO_ROW_STAYS = 'walrelay.emit_and_delete and Outbox(storage="deleted_row")'

_HEAD = "-- The rights of the roles in deploy/roles.sql. To be run by outbox_owner after `walrelay init`.\n"
_ROLES = {
    "relay": "The relay. The stream needs no right to the outbox.",
    "shop": "Writers: a row, by walrelay.emit or by INSERT.",
    "oncall": "On call.",
    "cleaner": "The clean-up by a role of its own: `walrelay cleanup`.",
}


class Right(NamedTuple):
    """A privilege on a table or a column of it, or on a schema where `table` is None; names as they are, not quoted."""

    privilege: str
    schema: str
    table: str | None = None
    column: str | None = None


class Need(NamedTuple):
    """`when`: what needs it; empty: all that the role does. `vital`: without it the relay does not begin, or ends where
    it first needs one. `usual`: deploy/grants.sql gives it, and otherwise shows it.
    """

    role: str
    privileges: tuple[str, ...]
    table: str
    column: str | None = None
    when: str = ""
    vital: bool = True
    usual: bool = True


NEEDS = (
    Need("relay", ("SELECT",), "slots"),
    Need("relay", ("SELECT",), "dead_letters", vital=False),
    Need("relay", ("INSERT", "UPDATE"), "dead_letters", when=REFUSALS),
    Need("relay", ("SELECT", "INSERT", "UPDATE"), "positions", when=POSITION),
    Need("relay", ("SELECT", "DELETE"), OUTBOX, when=RETENTION, vital=False, usual=False),
    Need("relay", ("UPDATE",), "slots", "published_from", when=FROM_SLOT, vital=False, usual=False),
    Need("shop", ("INSERT",), OUTBOX),
    Need("shop", ("SELECT", "DELETE"), OUTBOX, when=NO_ROW_STAYS, usual=False),
    Need("oncall", ("SELECT",), OUTBOX),
    Need("oncall", ("SELECT",), "slots"),
    Need("oncall", ("SELECT",), "positions"),
    Need("oncall", ("SELECT", "INSERT", "UPDATE"), "dead_letters"),
    Need("oncall", ("SELECT", "INSERT", "UPDATE", "DELETE"), "replays"),
    Need("cleaner", ("SELECT", "DELETE"), OUTBOX),
    Need("cleaner", ("SELECT",), "slots"),
)


def of_role(role: str, outbox: tuple[str, str], when: Container[str], *, vital: bool) -> list[Right]:
    """What it needs where this and no more is asked of it, in the order to be granted. `outbox`: schema and table."""
    schemas = [Right("USAGE", schema) for schema in (outbox[0], OWN)]
    needs = [
        each for each in NEEDS if each.role == role and each.vital == vital and (not each.when or each.when in when)
    ]
    return [*schemas, *(right for each in needs for right in _rights(each, outbox))]


def of_table(table: str) -> list[Right]:
    """What whoever writes a table of the schema walrelay needs."""
    privileges = dict.fromkeys(privilege for each in NEEDS if each.table == table for privilege in each.privileges)
    return [Right("USAGE", OWN), *(Right(privilege, OWN, table) for privilege in privileges)]


def script() -> str:
    """deploy/grants.sql."""
    lines = [_HEAD, f"GRANT USAGE ON SCHEMA {OWN} TO {', '.join(_ROLES)};"]
    for role, head in _ROLES.items():
        lines += ["", f"-- {head}"]
        for each in NEEDS:
            if each.role == role:
                lines.append(_statement(each))
    return "\n".join(lines) + "\n"


def _rights(need: Need, outbox: tuple[str, str]) -> list[Right]:
    schema, table = outbox if need.table == OUTBOX else (OWN, need.table)
    return [Right(privilege, schema, table, need.column) for privilege in need.privileges]


def _statement(need: Need) -> str:
    table = "public.outbox" if need.table == OUTBOX else f"{OWN}.{need.table}"
    column = f" ({need.column})" if need.column else ""
    grant = f"GRANT {', '.join(need.privileges)}{column} ON {table} TO {need.role};"
    return ("" if need.usual else "-- ") + grant + (f" -- for {need.when}" if need.when else "")
