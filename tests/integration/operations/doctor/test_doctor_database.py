"""The doctor and what may be wrong inside one database: each complaint on a real server, and its fix carried out."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.integration.operations.doctor.conftest import MakeRole
from tests.integration.operations.doctor.patient import Patient, as_role
from tests.servers.choose import Missing, give_up
from tests.servers.database import Database, Postgres
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until
from walrelay import compose
from walrelay.config import load
from walrelay.lsn import LSN
from walrelay.observe import Observers
from walrelay.operations.doctor import writers
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.locks import lock_key
from walrelay.postgres.role_checks import rights_to_replicate
from walrelay.source.stream import Stream, Timing
from walrelay.supervise import Stop
from walrelay.table import days
from walrelay.wire.commands import pgoutput_options

OUTBOX = (
    "CREATE TABLE {} (id uuid, aggregate_type text, aggregate_id text, type text, payload jsonb, headers jsonb,"
    " topic text"
)


def test_a_healthy_system_gives_only_ok(healthy: Patient) -> None:
    assert healthy.complaints() == []
    assert healthy.exit_code == 0


def test_before_init_every_problem_is_fixed_by_init(patient: Patient) -> None:
    complaints = patient.complaints()
    assert {each.subject for each in complaints} == {"table", "publication", "slot"}
    assert {each.fix for each in complaints} == {f"walrelay init -c {patient.path}"}
    assert patient.exit_code == 1
    patient.paste(complaints[0].fix)
    assert patient.complaints() == []


# The role


def test_a_role_without_replication(healthy: Patient, database: Database, role: MakeRole) -> None:
    name = role()
    healthy.settings["source"]["dsn"] = as_role(database.dsn, name)
    complaint = healthy.complaint("role")
    assert complaint == ("role", "problem", f"{name} has no REPLICATION attribute", f'ALTER ROLE "{name}" REPLICATION;')
    subjects = {each.subject for each in healthy.findings()}
    assert "replication connection" not in subjects, "what cannot be asked must not be reported"
    healthy.paste(complaint.fix)
    healthy.paste(healthy.complaint("privileges").fix)
    assert healthy.complaints() == []


def test_where_rds_replication_stands_for_it_the_doctor_and_every_command_go_by_that(
    healthy: Patient, database: Database, role: MakeRole
) -> None:
    name = role()
    healthy.settings["source"]["dsn"] = as_role(database.dsn, name)
    database.execute("CREATE ROLE rds_replication")
    try:
        complaint = healthy.complaint("role")
        assert complaint.fix == f'GRANT rds_replication TO "{name}";'
        with Catalog(as_role(database.dsn, name)) as catalog:
            (lacking,) = rights_to_replicate(catalog)
            assert lacking.grant == complaint.fix
            healthy.paste(complaint.fix)
            assert rights_to_replicate(catalog) == []
        assert "role" not in {each.subject for each in healthy.complaints()}
    finally:
        database.execute("DROP ROLE rds_replication")


@pytest.mark.parametrize(
    "settings",
    [{}, {"position": {"keep": "table"}, "refusals": {"policy": "dead_letter"}, "retention": "1d"}],
    ids=["defaults", "everything"],
)
def test_a_role_that_may_only_replicate_is_told_every_grant_it_needs(
    healthy: Patient, database: Database, role: MakeRole, settings: dict[str, Any]
) -> None:
    healthy.settings |= settings
    healthy.settings["source"]["dsn"] = as_role(database.dsn, role("REPLICATION"))
    complaint = healthy.complaint("privileges")
    refused = healthy.run("run")
    assert refused.exit_code == 1
    assert complaint.detail in refused.stderr
    assert complaint.fix in refused.stderr.replace('\\"', '"')
    healthy.paste(complaint.fix)
    assert healthy.complaints() == []


@pytest.mark.parametrize("command", ["status", "recover --dry-run --replace", "cleanup --older-than 1d --timeout 0.1"])
def test_a_command_that_is_refused_names_the_grant_itself(
    healthy: Patient, database: Database, role: MakeRole, command: str
) -> None:
    healthy.settings["source"]["dsn"] = as_role(database.dsn, role("REPLICATION"))
    for _ in range(9):
        result = healthy.run(*command.split())
        if "GRANT" not in result.stderr:
            break
        assert result.exit_code == 1
        for grant in re.findall(r"GRANT [^;]+;", result.stderr):
            healthy.paste(grant)
    assert "denied" not in result.stderr
    assert "lacks" not in result.stderr


def test_a_role_that_may_not_make_a_publication_is_told_to_have_another_run_the_sql(
    patient: Patient, database: Database, role: MakeRole
) -> None:
    patient.settings["source"]["dsn"] = as_role(database.dsn, role("REPLICATION"))
    fix = patient.complaint("publication").fix
    assert fix.startswith(f'walrelay init --dry-run -c {patient.path} | psql "')
    assert "user=postgres" in fix
    assert "password" not in fix


def test_a_schema_that_the_role_may_not_use(patient: Patient, database: Database, role: MakeRole) -> None:
    database.execute("CREATE SCHEMA app")
    patient.settings["outbox"] = {"table": "app.outbox"}
    patient.init()
    name = role("REPLICATION")
    patient.settings["source"]["dsn"] = as_role(database.dsn, name)
    complaint = patient.complaint("privileges")
    assert complaint.detail == f'{name} may not use schema "app"'
    assert complaint.fix.startswith(f'GRANT USAGE ON SCHEMA "app" TO "{name}";')
    patient.paste(complaint.fix)
    assert patient.complaints() == []


# The lead


def test_somebody_who_holds_the_lead_and_is_no_relay(healthy: Patient, database: Database) -> None:
    with database.connect(application_name="mallory") as session:
        session.execute("SELECT pg_advisory_lock(%s)", [lock_key(database.name)])
        complaint = healthy.complaint("lead")
        assert f"PID {session.info.backend_pid}, role 'postgres', application 'mallory'" in complaint.detail
        assert complaint.detail in healthy.run("status").stdout
        database.execute(complaint.fix)
        wait_until(lambda: healthy.complaints() == [], 10, "the lead to be free")


# The table


def test_a_missing_column_that_may_go_by_another_name(patient: Patient, database: Database) -> None:
    database.execute(OUTBOX.format("public.outbox").replace("aggregate_type", "aggregatetype") + ")")
    complaint = patient.complaint("columns")
    assert complaint.detail == "public.outbox has no column 'aggregate_type'"
    assert complaint.fix == "outbox.columns.aggregate_type: aggregatetype   # in the settings"
    patient.refuses("init", complaint)
    patient.paste(complaint.fix)
    patient.init()
    assert patient.complaints() == []


def test_a_missing_column_that_nothing_resembles(patient: Patient, database: Database) -> None:
    database.execute(OUTBOX.format("public.outbox").replace(", topic text", "") + ")")
    patient.settings["outbox"] = {"columns": {"tenant_id": None, "created_at": None}}
    patient.paste("CREATE PUBLICATION walrelay FOR TABLE public.outbox WITH (publish = insert);")
    complaint = patient.complaint("columns")
    add = 'ALTER TABLE "public"."outbox" ADD COLUMN "topic" text;'
    assert complaint.fix == f"{add}  -- or, in the settings, outbox.columns.topic: null"
    patient.paste(complaint.fix)
    assert patient.told("columns").verdict == "ok"


def test_a_generated_column(patient: Patient, database: Database) -> None:
    database.execute(
        OUTBOX.format("public.outbox").replace(
            "topic text", "topic text GENERATED ALWAYS AS (type || '-events') STORED"
        )
        + ", tenant_id text, created_at timestamptz)"
    )
    complaint = next(each for each in patient.complaints() if "topic" in each.detail)
    assert complaint.verdict == "problem"
    patient.refuses("init", complaint)
    patient.paste(complaint.fix)
    patient.init()
    assert patient.complaints() == []


def test_an_unlogged_table(healthy: Patient, database: Database) -> None:
    database.execute("DROP TABLE public.outbox")
    database.execute(OUTBOX.replace("TABLE", "UNLOGGED TABLE").format("public.outbox") + ")")
    complaint = healthy.complaint("table")
    assert "unlogged" in complaint.detail
    healthy.paste(complaint.fix)
    assert healthy.told("table").verdict == "ok"


def test_a_view_instead_of_a_table(patient: Patient, database: Database) -> None:
    database.execute("CREATE VIEW public.outbox AS SELECT 1 AS id")
    assert patient.complaint("table").detail == "public.outbox is a view, which is not replicated"


def test_headers_that_are_no_json(healthy: Patient, database: Database) -> None:
    database.execute("ALTER TABLE public.outbox DROP COLUMN headers")
    database.execute("ALTER TABLE public.outbox ADD COLUMN headers text[]")
    complaint = healthy.complaint("columns")
    assert complaint.detail == "'headers' has type text[], but must hold a JSON object"
    healthy.paste(complaint.fix)
    assert healthy.complaints() == []


def test_a_column_that_keeps_binary_mode_off_is_told_as_ok(healthy: Patient, database: Database) -> None:
    database.execute("ALTER TABLE public.outbox ALTER COLUMN aggregate_id TYPE numeric USING 0")
    assert healthy.told("binary mode").detail.endswith("because of aggregate_id (numeric)")
    assert healthy.complaints() == []


# The publication


def test_no_publication(healthy: Patient, database: Database) -> None:
    database.execute("DROP PUBLICATION walrelay")
    complaint = healthy.complaint("publication")
    assert complaint.detail == "walrelay does not exist"
    healthy.paste(complaint.fix)
    assert healthy.complaints() == []


def take_note(patient: Patient) -> None:
    """Somebody has looked after the rows that may have passed by while the publication was another one."""
    complaint = patient.complaint("publication")
    assert complaint.verdict == "problem"
    assert "left publication 'walrelay' and came back" in complaint.detail
    patient.paste(complaint.fix)


def test_a_publication_without_the_table(healthy: Patient, database: Database) -> None:
    database.execute("ALTER PUBLICATION walrelay DROP TABLE public.outbox")
    complaint = healthy.complaint("publication")
    assert complaint.detail.startswith("walrelay does not have public.outbox")
    assert complaint.fix == 'ALTER PUBLICATION "walrelay" ADD TABLE "public"."outbox";'
    healthy.paste(complaint.fix)
    take_note(healthy)
    assert healthy.complaints() == []


def test_a_publication_without_inserts(healthy: Patient, database: Database) -> None:
    database.execute("ALTER PUBLICATION walrelay SET (publish = 'update')")
    complaint = healthy.complaint("publication")
    assert (complaint.verdict, complaint.detail) == ("problem", "walrelay does not publish inserts")
    healthy.paste(complaint.fix)
    assert healthy.complaints() == []


def test_a_publication_with_more_than_inserts(healthy: Patient, database: Database) -> None:
    database.execute("ALTER PUBLICATION walrelay SET (publish = 'insert, update, delete')")
    complaint = healthy.complaint("publication")
    assert complaint.verdict == "warning"
    assert complaint.detail == "walrelay also publishes update and delete, which the relay only skips"
    database.execute("ALTER TABLE public.outbox DROP CONSTRAINT outbox_pkey")
    assert healthy.complaint("publication").detail.endswith("and those statements of writers will fail")
    healthy.paste(complaint.fix)
    assert healthy.complaints() == []


def test_a_publication_for_all_tables_covers_the_outbox(healthy: Patient, database: Database) -> None:
    database.execute("DROP PUBLICATION walrelay")
    database.execute("CREATE PUBLICATION walrelay FOR ALL TABLES WITH (publish = 'insert')")
    take_note(healthy)
    assert healthy.complaints() == []


def test_a_row_filter(healthy: Patient, database: Database) -> None:
    _needs(database, 15)
    database.execute("ALTER PUBLICATION walrelay SET TABLE public.outbox WHERE (tenant_id = 'eu')")
    complaint = healthy.complaint("publication")
    assert complaint.verdict == "warning"
    assert "(tenant_id = 'eu'::text)" in complaint.detail
    healthy.paste(complaint.fix)
    take_note(healthy)
    assert healthy.complaints() == []


NOISE = {"name": "noise", "when": {"type": {"prefix": "debug."}}, "drop": True}


def test_a_row_filter_made_of_rules_is_compared_with_the_rules_of_today(healthy: Patient, database: Database) -> None:
    _needs(database, 15)
    healthy.settings["routes"] = [NOISE, {"name": "rest"}]
    assert healthy.complaints() == [], "without a filter the relay drops them itself"
    shown = healthy.run("init", "--push-down", "--dry-run")
    assert (
        """ADD TABLE ONLY "public"."outbox" WHERE (((starts_with("type"::text COLLATE "C", 'debug.'""" in shown.output
    )
    made = healthy.run("init", "--push-down")
    assert "updated   row filter: noise" in made.output
    assert healthy.complaints() == []
    assert "present   row filter: noise" in healthy.run("init", "--push-down").output

    healthy.settings["routes"] = [NOISE, {"name": "x", "when": {"type": "x"}, "drop": True}, {"name": "rest"}]
    complaint = healthy.complaint("publication")
    assert (complaint.verdict, complaint.detail) == ("warning", "walrelay could also withhold what the rules drop: x")
    healthy.paste(complaint.fix)
    assert healthy.complaints() == []

    healthy.settings["routes"] = [{"name": "narrower", "when": {"type": "debug.x"}, "drop": True}, {"name": "rest"}]
    complaint = healthy.complaint("publication")
    assert complaint.verdict == "problem"
    assert complaint.detail.endswith("their events are lost: type begins with 'debug.'; or type is 'x'")
    refused = healthy.run("run")
    assert (refused.exit_code, complaint.detail in refused.stderr) == (1, True)
    healthy.paste(complaint.fix)
    assert healthy.complaints() == []

    healthy.settings["routes"] = []
    assert healthy.complaint("publication").verdict == "problem"
    assert "updated   row filter: none" in healthy.run("init", "--push-down").output
    assert healthy.complaints() == []


def test_a_column_list_that_hides_a_needed_column(healthy: Patient, database: Database) -> None:
    _needs(database, 15)
    columns = "id, aggregate_type, aggregate_id, type, headers, topic"
    database.execute(f"ALTER PUBLICATION walrelay SET TABLE public.outbox ({columns})")
    complaint = healthy.complaint("publication")
    assert (complaint.verdict, complaint.detail) == ("problem", "walrelay hides column 'payload' by a column list")
    healthy.paste(complaint.fix)
    take_note(healthy)
    assert healthy.complaints() == []


def test_a_column_list_that_hides_what_nobody_needs_is_ok(healthy: Patient, database: Database) -> None:
    _needs(database, 15)
    columns = "id, aggregate_type, aggregate_id, type, payload, headers, topic"
    database.execute(f"ALTER PUBLICATION walrelay SET TABLE public.outbox ({columns})")
    take_note(healthy)
    assert healthy.complaints() == []


def test_a_partitioned_outbox_published_by_its_partitions(patient: Patient, database: Database) -> None:
    _partitioned(database)
    patient.init()
    assert patient.complaints() == []
    database.execute("ALTER PUBLICATION walrelay SET (publish_via_partition_root = false)")
    complaint = patient.complaint("publication")
    assert "under their own names" in complaint.detail
    patient.paste(complaint.fix)
    assert patient.complaints() == []


def test_an_unlogged_partition(patient: Patient, database: Database) -> None:
    _partitioned(database)
    patient.init()
    database.execute("CREATE UNLOGGED TABLE fast PARTITION OF public.outbox FOR VALUES IN ('fast')")
    complaint = patient.complaint("table")
    assert complaint.fix == 'ALTER TABLE "public"."fast" SET LOGGED;'
    patient.paste(complaint.fix)
    assert patient.complaints() == []


# The slot


def test_a_slot_that_init_made_and_that_is_gone(healthy: Patient, database: Database) -> None:
    database.execute("SELECT pg_drop_replication_slot(%s)", [database.name])
    complaint = healthy.complaint("slot")
    assert "is gone" in complaint.detail
    assert complaint.fix == f"walrelay recover -c {healthy.path}"
    healthy.paste(f"walrelay drop --yes -c {healthy.path} && walrelay init -c {healthy.path}")  # nothing was lost here
    assert healthy.complaints() == []


def test_a_slot_of_a_plugin_that_walrelay_does_not_read(patient: Patient, database: Database) -> None:
    try:
        database.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [database.name])
    except psycopg.errors.UndefinedFile:
        pytest.skip("this server has no test_decoding")
    complaint = patient.complaint("slot")
    assert complaint.detail == f"{database.name} was made for test_decoding, the settings say pgoutput"
    patient.paste(complaint.fix)
    patient.init()
    assert patient.complaints() == []


def test_a_slot_of_the_other_plugin(healthy: Patient, database: Database) -> None:
    if not database.server.has_wal2json:
        give_up(Missing("PostgreSQL with wal2json"))
    healthy.settings["source"]["plugin"] = "wal2json"
    complaint = healthy.complaint("slot")
    assert complaint.fix == "source.plugin: pgoutput   # in the settings"
    healthy.paste(complaint.fix)
    assert healthy.complaints() == []


def test_a_slot_of_another_database(patient: Patient, database: Database, postgres: Postgres) -> None:
    other = postgres.create_database()
    try:
        other.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [database.name])
        complaint = patient.complaint("slot")
        expected = f"{database.name} belongs to database {other.name}, the DSN leads to {database.name}"
        assert complaint.detail == expected
        patient.paste(complaint.fix)
        patient.init()
        assert patient.complaints() == []
    finally:
        other.drop()


def test_a_physical_slot_of_the_same_name(patient: Patient, database: Database) -> None:
    database.execute("SELECT pg_create_physical_replication_slot(%s)", [database.name])
    try:
        assert patient.complaint("slot").detail == f"{database.name} is a physical slot"
    finally:
        database.execute("SELECT pg_drop_replication_slot(%s)", [database.name])


def test_a_slot_that_a_running_relay_reads_is_ok(healthy: Patient, database: Database) -> None:
    with _relay(healthy, database):
        detail = f"{database.name} is read by PID {_reader(database)} (walrelay)"
        assert healthy.told("slot").detail == detail
        assert healthy.complaints() == []


def test_a_slot_that_someone_else_reads(healthy: Patient, database: Database) -> None:
    dsn = make_conninfo(database.dsn, application_name="debezium")
    stream = Stream(dsn, database.name, "walrelay", Timing(), lambda text: None)
    try:
        ((confirmed,),) = database.execute(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", [database.name]
        )
        stream.start_stream(LSN.parse(confirmed), pgoutput_options("walrelay", binary=True))
        complaint = healthy.complaint("slot")
        assert complaint.verdict == "problem"
        assert complaint.detail.endswith(f"is read by PID {stream.pid} (debezium), which is not walrelay")
        healthy.paste(complaint.fix)
        wait_until(lambda: not healthy.complaints(), 10, "the slot to be free")
    finally:
        stream.close()


# Transactions


def test_a_writer_that_is_idle_in_its_transaction(
    healthy: Patient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.connect(application_name="shop", autocommit=False) as writer:
        writer.execute("INSERT INTO public.outbox (aggregate_type, aggregate_id, type) VALUES ('a', 'b', 'c')")
        assert healthy.complaints() == [], "a transaction that is not old is nothing to complain about"
        monkeypatch.setattr(writers, "LONG", 0.0)
        pid = writer.info.backend_pid
        complaint = next(each for each in healthy.complaints() if f"PID {pid} " in each.detail)
        assert complaint.subject == "open transactions"
        assert "(shop, idle in transaction)" in complaint.detail
        assert complaint.fix == f"SELECT pg_terminate_backend({pid});"


# wal2json


def test_wal2json_that_is_installed(patient: Patient, database: Database) -> None:
    if not database.server.has_wal2json:
        give_up(Missing("PostgreSQL with wal2json"))
    patient.settings["source"]["plugin"] = "wal2json"
    patient.init()
    assert patient.told("output plugin").detail == "wal2json is installed"
    assert patient.complaints() == []


def test_wal2json_on_a_partitioned_outbox(patient: Patient, database: Database) -> None:
    if not database.server.has_wal2json:
        give_up(Missing("PostgreSQL with wal2json"))
    columns = "id uuid, aggregate_type text, aggregate_id text, type text, payload jsonb, headers jsonb, topic text"
    database.execute(f"CREATE TABLE outbox ({columns}) PARTITION BY HASH (aggregate_id)")
    patient.settings["source"]["plugin"] = "wal2json"
    complaint = patient.complaint("output plugin")
    assert complaint.verdict == "problem"
    assert "is partitioned" in complaint.detail
    patient.refuses("init", complaint)
    assert complaint.fix == "source.plugin: pgoutput   # in the settings"


def test_wal2json_on_a_database_whose_encoding_it_would_print(patient: Patient, database: Database) -> None:
    if not database.server.has_wal2json:
        give_up(Missing("PostgreSQL with wal2json"))
    name = f"{database.name}_latin1"
    database.server.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        patient.settings["source"] |= {"plugin": "wal2json", "dsn": database.server.database(name)}
        assert "LATIN1" in patient.complaint("output plugin").detail
    finally:
        database.server.drop_database(name)


def test_wal2json_as_far_as_an_ordinary_role_can_tell(patient: Patient, database: Database, role: MakeRole) -> None:
    if not database.server.has_wal2json:
        give_up(Missing("PostgreSQL with wal2json"))
    patient.settings["source"]["plugin"] = "wal2json"
    name = role("REPLICATION")
    operator, relay = database.dsn, as_role(database.dsn, name)
    patient.settings["source"]["dsn"] = relay
    assert patient.told("output plugin").verdict == "warning"
    patient.settings["source"]["dsn"] = operator
    patient.init()
    patient.settings["source"]["dsn"] = relay
    assert patient.told("output plugin").detail.startswith("wal2json made slot ")
    patient.settings["source"]["dsn"] = operator
    database.execute(
        f"GRANT USAGE ON SCHEMA walrelay TO {name}; GRANT SELECT ON ALL TABLES IN SCHEMA walrelay TO {name};"
        f" GRANT INSERT, UPDATE ON walrelay.relays, walrelay.activity TO {name}"
    )
    patient.settings["source"]["dsn"] = relay
    assert patient.complaints() == []


def test_wal2json_that_is_not_installed(postgres18: PostgresServer, tmp_path: Path) -> None:
    if postgres18.has_wal2json:
        pytest.skip("this server has it")
    patient = Patient(tmp_path, postgres18.dsn, source={"plugin": "wal2json"})
    complaint = patient.complaint("output plugin")
    assert complaint.verdict == "problem"
    assert complaint.fix == f"apt-get install postgresql-{postgres18.major}-wal2json   # or source.plugin: pgoutput"


def _needs(database: Database, major: int) -> None:
    if database.server.major < major:
        pytest.skip(f"PostgreSQL {major} has it first")


def _partitioned(database: Database) -> None:
    columns = OUTBOX.format("public.outbox") + ", tenant_id text, created_at timestamptz)"
    database.execute(f"{columns} PARTITION BY LIST (type)")
    database.execute("CREATE TABLE rest PARTITION OF public.outbox DEFAULT")


def _reader(database: Database) -> int | None:
    rows = database.execute("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", [database.name])
    return rows[0][0] if rows else None


@contextmanager
def _relay(patient: Patient, database: Database) -> Iterator[None]:
    """A relay that runs meanwhile, in a thread."""
    stop, settings = Stop(), load(patient.path)
    relay = Thread(target=lambda: compose.relay_until(stop, compose.wiring(settings), Observers()))
    relay.start()
    try:
        wait_until(lambda: _reader(database), 10, "the relay to read its slot")
        yield
    finally:
        stop.set()
        relay.join(10)


# Days of a partitioned outbox


@pytest.fixture
def partitioned(patient: Patient) -> Patient:
    assert patient.run("init", "--partitioned").exit_code == 0
    return patient


def test_a_role_that_may_update_a_partitioned_outbox_can_publish_events_again(
    partitioned: Patient, database: Database, role: MakeRole
) -> None:
    writers = role()
    for right in ("UPDATE", "UPDATE (created_at)"):
        database.execute(f"GRANT INSERT, {right} ON outbox TO {writers}")
        (complaint,) = partitioned.complaints()
        assert f"{writers} may UPDATE" in complaint.detail
        database.execute(complaint.fix)
        assert partitioned.complaints() == []
    database.execute(f"GRANT UPDATE ON outbox TO {writers}")
    database.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'written once'; END$$;"
        " CREATE TRIGGER written_once BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    assert partitioned.complaints() == []


def test_a_partitioned_outbox_gives_only_ok(partitioned: Patient) -> None:
    assert partitioned.complaints() == []
    assert partitioned.told("partitions").detail == "made for today and 7 more days"


def test_days_that_run_out(partitioned: Patient, database: Database) -> None:
    for number in range(2, 8):
        database.execute(f"DROP TABLE outbox_{days.today() + timedelta(days=number):%Y%m%d}")
    complaint = partitioned.complaint("partitions")
    assert complaint.detail.startswith("made for today and 1 more days")
    partitioned.paste(complaint.fix)
    assert partitioned.complaints() == []


def test_rows_for_which_there_was_no_day(partitioned: Patient, database: Database) -> None:
    database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, created_at) VALUES ('a', '1', 't', '2020-1-1')"
    )
    complaint = partitioned.complaint("partitions")
    assert "outbox_default has rows" in complaint.detail
    partitioned.paste(complaint.fix)
