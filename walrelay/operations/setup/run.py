"""Makes what `walrelay init` planned, in that order."""

from collections.abc import Iterator
from typing import NamedTuple

from walrelay.errors import Fatal, Retryable
from walrelay.operations.setup.steps import SetupStep, Verdict
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import PostgresError, StatementTimeout, connection_lost, first_line, of, whole
from walrelay.postgres.locks import held, slot_lock
from walrelay.postgres.role_checks import NOT_OURS_TO_GIVE, refuse_missing_rights, rights_to_replicate
from walrelay.postgres.slot_notes import note_publication
from walrelay.postgres.slot_records import missing_rights_on_slots, noted_publication
from walrelay.postgres.slots import blocked
from walrelay.wiring import Wiring


class Outcome(NamedTuple):
    """The outcome of a step; `why` it was not made."""

    verdict: Verdict
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.why}" if self.why else self.verdict


def apply(
    catalog: Catalog, wiring: Wiring, steps: list[SetupStep], *, patience: float
) -> Iterator[tuple[SetupStep, Outcome]]:
    """Makes what is missing, one step after the other, and yields each outcome. `patience`: seconds to wait for open
    transactions when the slot is made.
    """
    connect.set_statement_timeout(catalog.connection, patience)
    with held(catalog, slot_lock(catalog, wiring.slot)):
        yield from _applied(catalog, wiring, steps, patience)


def _applied(
    catalog: Catalog, wiring: Wiring, steps: list[SetupStep], patience: float
) -> Iterator[tuple[SetupStep, Outcome]]:
    refuse_missing_rights(
        catalog, missing_rights_on_slots(catalog, "INSERT", "UPDATE"), f"take note of slot {wiring.slot}"
    )
    new = {step.kind for step in steps if not step.present}
    made_here = "slot" in new  # nothing is known of a slot made elsewhere
    xmin = catalog.value("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8") if made_here else None
    for step in steps:
        if step.present:
            yield step, Outcome(step.verdict, step.note) if step.note else Outcome("present")
            continue
        if step.kind == "slot":
            needed = [*missing_rights_on_slots(catalog, "INSERT", "UPDATE"), *rights_to_replicate(catalog)]
            refuse_missing_rights(catalog, needed, f"make slot {wiring.slot}")
        try:
            catalog.connection.execute(step.sql.encode())
            yield step, Outcome(step.verdict)
        except StatementTimeout as cause:
            if step.kind == "index":
                yield step, Outcome("left out", f"other transactions were open for {patience:g} s; run init again")
                continue
            raise blocked(catalog, step.what, patience) from cause
        except PostgresError as cause:
            if connection_lost(cause):  # by SQLSTATE: psycopg's OperationalError also covers errors that no retry cures
                raise Retryable(f"{step.what} could not be made: {first_line(cause)}") from cause
            if not step.optional:
                raise _not_made(step, cause, wiring) from cause
            yield step, Outcome("left out", first_line(cause))
    now = catalog.published(wiring.publication or "", wiring.table)
    before = noted_publication(catalog, wiring.slot) if wiring.publication is not None else None
    lost = note_publication(catalog, wiring.slot, wiring.table, now.seen, xmin, mended="publication" in new)
    outbox = SetupStep("the outbox", "", True, "")
    if before is not None and (change := now.since(before, wiring.publication or "", wiring.table)):
        yield (
            outbox,
            Outcome("was not published all the time", f"{change}; check whether the rows of that time were published"),
        )
    elif lost:
        yield outbox, Outcome("has earlier rows that the clean-up will not delete", "; ".join(lost))


def _not_made(step: SetupStep, cause: PostgresError, wiring: Wiring) -> Fatal:
    if step.kind == "slot":
        found = of(cause, slot=wiring.slot, publication=wiring.publication or "")
        hint = found.hint if isinstance(found, Fatal) else ""
        return Fatal(f"{step.what} could not be made: {first_line(cause)}", hint=hint or "Run `walrelay doctor`.")
    if step.kind == "rights to write logical messages":
        return Fatal(f"{step.what} could not be made: {first_line(cause)}", hint=NOT_OURS_TO_GIVE)
    hint = "`walrelay init --dry-run` prints the SQL; "
    if cause.sqlstate == "42501":  # insufficient_privilege
        hint += "a role with more rights can run it, then init again."
    else:
        hint += "what the server says, often of an event trigger, is to be changed first. Then run init again."
    return Fatal(f"{step.what} could not be made: {whole(cause)}", hint=hint)
