"""Whether a role may replicate, drop a publication or write logical messages, and the SQL that lets it. Commands ask
before they change anything.
"""

from collections.abc import Sequence
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.rights import MissingRight, current_role, grant_statements


def rights_to_drop_publication(catalog: Catalog, publication: str) -> list[MissingRight]:
    """What the role lacks to drop a publication, if there is one of that name."""
    owner = catalog.value(
        "SELECT pg_get_userbyid(pubowner)::text FROM pg_publication WHERE pubname = %s"
        " AND NOT pg_has_role(pubowner, 'USAGE')",
        publication,
    )
    name = current_role(catalog.connection)
    return (
        []
        if owner is None
        else [MissingRight(f"drop publication {publication}", f"GRANT {identifier(owner)} TO {name};")]
    )


def rights_to_replicate(catalog: Catalog) -> list[MissingRight]:
    """What the role lacks to make, read and drop a slot: REPLICATION, or rds_replication's membership on Amazon RDS."""
    ((may, on_rds),) = catalog.rows(
        "SELECT r.rolreplication OR r.rolsuper OR coalesce(pg_has_role(r.oid, rds.oid, 'MEMBER'), false),"
        " rds.oid IS NOT NULL FROM pg_roles r LEFT JOIN pg_roles rds ON rds.rolname = 'rds_replication'"
        " WHERE r.rolname = current_user"
    )
    name = current_role(catalog.connection)
    grant = f"GRANT rds_replication TO {name};" if on_rds else f"ALTER ROLE {name} REPLICATION;"
    return [] if may else [MissingRight("use replication slots", grant)]


def refuse_missing_rights(catalog: Catalog, missing: Sequence[MissingRight], to: str) -> None:
    """Fatal if any are missing: all of them in one message, with the statements that give them."""
    if missing:
        raise Fatal(
            f"the role {current_role(catalog.connection)} may not {to}:"
            f" it may not {', nor '.join(each.what for each in missing)}; nothing was changed",
            hint=grant_statements(missing),
            page="rights",
        )


NOT_OURS_TO_GIVE = (
    "Only a superuser may take the right to pg_logical_emit_message from PUBLIC: `walrelay init --dry-run` prints the"
    " SQL to run as one, then init again. Where there is none (managed servers), write rows instead"
    " (outbox.messages.prefix: null), or accept that every role that can connect may publish to any topic"
    " (outbox.messages.writers: [public])."
)

_FUNCTIONS = """
    FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = 'pg_logical_emit_message'
"""
_NOT_TAKEN = """DO $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
        AND p.proname = 'pg_logical_emit_message' AND pg_catalog.has_function_privilege('public', p.oid, 'EXECUTE')
    ) THEN
        RAISE EXCEPTION 'PUBLIC still may call pg_logical_emit_message' USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;
"""  # REVOKE by a role that did not grant only warns


class MessageRights(NamedTuple):
    """Who may call pg_logical_emit_message, in all of its forms: `public`, and roles by name in `may`. `given`: the
    rights are as wanted; `sql` makes them so.
    """

    public: bool
    may: tuple[str, ...]
    lacking: tuple[str, ...]  # the wanted roles that may not
    given: bool
    sql: str


def message_rights(catalog: Catalog, writers: tuple[str, ...]) -> MessageRights:
    """The rights compared with `writers`, the roles that should have them; "public" means all roles."""
    everybody = "public" in writers
    signatures = [
        signature
        for (signature,) in catalog.rows(
            "SELECT 'pg_catalog.pg_logical_emit_message(' || pg_get_function_identity_arguments(p.oid) || ')'"
            f" {_FUNCTIONS} ORDER BY 1"
        )
    ]
    public = catalog.value(f"SELECT bool_or(has_function_privilege('public', p.oid, 'EXECUTE')) {_FUNCTIONS}")
    may = catalog.rows(
        "SELECT r.rolname::text FROM pg_roles r WHERE r.oid IN (SELECT (aclexplode(p.proacl)).grantee"
        f" {_FUNCTIONS}) AND NOT r.rolsuper ORDER BY 1"
    )
    able = catalog.rows(
        "SELECT r.rolname::text FROM pg_roles r WHERE r.rolname = ANY (%s::name[])"
        f" AND (SELECT bool_and(has_function_privilege(r.oid, p.oid, 'EXECUTE')) {_FUNCTIONS})",
        list(writers),
    )
    lacking = tuple(name for name in writers if name != "public" and (name,) not in able)
    given = not lacking if everybody else not public and not lacking
    return MessageRights(public, tuple(name for (name,) in may), lacking, given, _sql(signatures, writers, everybody))


def _sql(signatures: list[str], writers: tuple[str, ...], everybody: bool) -> str:
    functions = ", ".join(signatures)
    roles = ", ".join("PUBLIC" if name == "public" else identifier(name) for name in writers)
    grant = f"GRANT EXECUTE ON FUNCTION {functions} TO {roles};\n" if roles else ""
    return grant if everybody else f"REVOKE EXECUTE ON FUNCTION {functions} FROM PUBLIC;\n{grant}{_NOT_TAKEN}"
