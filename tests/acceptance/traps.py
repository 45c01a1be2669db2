"""What anybody who may create in `public` can put there: operators and functions that fit better than PostgreSQL's own.

A name that has no exact match in pg_catalog is looked for in the other schemas of the search_path as well, and what is
found there runs with the rights of whoever asked (CVE-2018-1058). PostgreSQL 14 lets every role create in `public`, and
so do databases that came from it by pg_upgrade or a dump.
"""

import re
from pathlib import Path

from tests.servers.database import Database

PACKAGE = Path(__file__).parents[2]

_TYPES = [
    "oid", "int2", "int4", "int8", "text", "name", '"char"', "varchar", "bool", "json", "jsonb", "pg_lsn", "xid",
    "xid8", "timestamptz", "interval", "numeric", "regclass", "bytea", "uuid", "tid", "float8", "text[]", "oid[]",
]  # fmt: skip
_COMPARISONS = ["=", "<>", "<", ">", "<=", ">=", "?", "~"]
_OPERATORS = ["||", "-", "+", "*", "->", "->>"]

# Every function counts in a sequence, whose numbers no rollback takes back, and then says its name.
_TRAP = """
CREATE FUNCTION public.{name}({arguments}) RETURNS {returns} LANGUAGE plpgsql AS $trap$
BEGIN
    PERFORM pg_catalog.nextval('public.sprung'::pg_catalog.regclass);
    RAISE EXCEPTION 'hijacked: {what}';
END $trap$
"""

_PLANTING = """
DO $plant$
DECLARE
    types text[] := %(types)s;
    l text; r text; o text; f text; number int := 0;
BEGIN
    FOREACH l IN ARRAY types LOOP
        FOREACH r IN ARRAY types LOOP
            number := number + 1;
            EXECUTE format(%(trap)s, 'compared_' || number, l || ', ' || r, 'bool', format('%%s with %%s', l, r));
            EXECUTE format(%(trap)s, 'joined_' || number, l || ', ' || r, 'text', format('%%s with %%s', l, r));
            FOREACH o IN ARRAY %(operators)s || %(comparisons)s LOOP
                f := CASE WHEN o = ANY (%(comparisons)s) THEN 'compared_' ELSE 'joined_' END || number;
                EXECUTE format(
                    'CREATE OPERATOR public.%%s (LEFTARG = %%s, RIGHTARG = %%s, FUNCTION = public.%%s)', o, l, r, f);
            END LOOP;
            FOREACH f IN ARRAY %(two)s LOOP
                EXECUTE format(%(trap)s, f, l || ', ' || r, 'text', format('%%s(%%s, %%s)', f, l, r));
            END LOOP;
        END LOOP;
        FOREACH f IN ARRAY %(one)s LOOP
            EXECUTE format(%(trap)s, f, l, 'text', format('%%s(%%s)', f, l));
        END LOOP;
    END LOOP;
END $plant$
"""


class Traps:
    """Planted by `role`, which has nothing but CREATE on `public`; they go with the database."""

    def __init__(self, database: Database, role: str) -> None:
        self._database, self.role = database, role
        database.execute(f"GRANT CREATE, USAGE ON SCHEMA public TO {self.role}")

    def plant(self) -> None:
        trap = _TRAP.format(name="%1$I", arguments="%2$s", returns="%3$s", what="%4$s")
        names = _called(self._database)
        with self._database.connect() as session:
            session.execute(f"SET ROLE {self.role}".encode())
            session.execute("CREATE SEQUENCE public.sprung; GRANT USAGE ON SEQUENCE public.sprung TO PUBLIC")
            session.execute("SET check_function_bodies = off; SET search_path = pg_catalog")
            statement = _PLANTING % {
                "types": _array(_TYPES),
                "trap": f"$sql${trap}$sql$",
                "operators": _array(_OPERATORS),
                "comparisons": _array(_COMPARISONS),
                "one": _array(names[1]),
                "two": _array(names[2]),
            }
            session.execute(statement.encode())

    def sprung(self) -> int:
        """How many of them were called so far."""
        with self._database.connect() as session:
            session.execute("SET search_path = pg_catalog")
            row = session.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM public.sprung").fetchone()
        assert row is not None
        return int(row[0])


def _called(database: Database) -> dict[int, list[str]]:
    """PostgreSQL's functions that walrelay calls, by how many arguments they take."""
    sources = [*(PACKAGE / "walrelay").rglob("*.py"), *(PACKAGE / "sql").glob("*.sql")]
    words = {word for source in sources for word in re.findall(r"\b([a-z_0-9]+)\(", source.read_text())}
    rows = database.execute(
        "SELECT DISTINCT pronargs, proname::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace"
        " AND prokind = 'f' AND pronargs IN (1, 2) AND proname = ANY (%s::name[])",
        [sorted(words)],
    )
    return {count: [name for arguments, name in rows if arguments == count] for count in (1, 2)}


def _array(texts: list[str]) -> str:
    return "ARRAY[" + ", ".join("'" + text.replace("'", "''") + "'" for text in texts) + "]::text[]"
