"""Whether the slot stands before changes that the publication is too young for: pgoutput looks it up as it was then."""

from collections.abc import Iterator

from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, problem
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import NoSuchObject, Notice, PostgresError, about_a_standby
from walrelay.postgres.slot_records import slot_origin
from walrelay.wire.commands import pgoutput_options

_PEEK = """
    SELECT 1 FROM pg_logical_slot_peek_binary_changes(%s::name, NULL, %s, VARIADIC %s::text[]) LIMIT 1
"""
_SENT = 10_000  # what PostgreSQL 14 sends at most before the first change: it has a beginning and an end of empty
#                 transactions as well


def changes(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """No catalog has the position at which a publication was made. One from before the slot's catalog_xmin is old
    enough; for any other the server is asked to decode up to the first transaction that it would send.
    """
    slot, name = catalog.slot(expected.slot), expected.publication
    if name is None or slot is None or slot.active_pid is not None:
        return  # a relay that reads it got past that place
    older = catalog.value(
        "SELECT age(p.xmin) > age(s.catalog_xmin) FROM pg_publication p, pg_replication_slots s"
        " WHERE p.pubname = %s AND s.slot_name = %s",
        name,
        slot.name,
    )
    if older or not _unreadable(catalog, slot.name, name):
        return
    missing = f"publication {name} {'does not exist' if older is None else f'is younger than slot {slot.name}'}"
    if slot_origin(catalog, slot.name) is not None:
        fix = expected.walrelay("recover --replace")
    else:
        both = f"{expected.walrelay('drop --yes')} && {expected.walrelay('init --backfill')}"
        fix = f"{both}   # makes both anew, and publishes the rows that are in the table"
    yield problem(
        "slot",
        f"{missing}: changes that wait in the slot were made without it, and no server can decode them; the slot has"
        " to be made anew. Events committed since it was made are still in the table",
        fix,
    )


def _unreadable(catalog: Catalog, slot: str, publication: str) -> bool:
    """PostgreSQL refuses at the first change; since 18 it warns, and passes over the changes. A server that needs
    longer than a statement may take, or does not let the role ask, says nothing.
    """
    warned: list[str | None] = []
    connection, enough = catalog.connection, 1 if catalog.server_version >= 150000 else _SENT
    options = [text for option in pgoutput_options(publication, binary=False) for text in option]

    def heard(notice: Notice) -> None:
        if not about_a_standby(notice.message_primary or ""):  # which has that SQLSTATE as well
            warned.append(notice.sqlstate)

    connection.add_notice_handler(heard)
    try:
        connection.execute("SELECT set_config('client_min_messages', 'warning', false)")
        connection.execute(_PEEK, [slot, enough, options])
    except NoSuchObject:
        return True
    except PostgresError:
        pass
    finally:
        connection.remove_notice_handler(heard)
    return "55000" in warned
