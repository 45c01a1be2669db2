"""`walrelay init` makes the functions for writers for the settings of now, and keeps current what it made."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database
from walrelay import compose
from walrelay.config import Settings
from walrelay.operations import setup
from walrelay.operations.doctor import examine
from walrelay.operations.drop import drop_all
from walrelay.postgres.catalog import Catalog
from walrelay.table import functions

EMIT = "SELECT walrelay.emit('order', %s, 'placed', '{}')"


@pytest.fixture
def way() -> str:
    return "text"


def changed(outbox: Outbox, *, slot: str = "", **options: Any) -> Settings:
    """The settings with another outbox or another slot."""
    source = {"slot": slot, "publication": slot} if slot else {}
    return outbox.under(outbox=options, source=source).settings


def made(settings: Settings) -> Mapping[str, str]:
    with Catalog(compose.wiring(settings).dsn) as catalog:
        wiring = compose.wiring(settings)
        steps = setup.plan(catalog, wiring)
        return {step.what: str(outcome) for step, outcome in setup.apply(catalog, wiring, steps, patience=30)}


def told(settings: Settings) -> list[tuple[str, str, str]]:
    return [tuple(each[1:]) for each in examine(compose.wiring(settings)) if each.subject == "made by init"]  # type: ignore[misc]


def aggregates(database: Database, table: str) -> list[str]:
    return [id_ for (id_,) in database.execute(f"SELECT aggregate_id FROM {table}")]


def test_an_outbox_that_has_moved_takes_the_functions_along(outbox: Outbox) -> None:
    database = outbox.database
    database.execute("CREATE SCHEMA app")
    database.execute("CREATE TABLE app.outbox (LIKE public.outbox INCLUDING ALL)")
    moved = changed(outbox, table="app.outbox")
    ((verdict, detail, fix),) = told(moved)
    assert (verdict, fix) == ("warning", "walrelay init")
    assert 'function walrelay.emit: it writes to "public"."outbox"' in detail
    outcomes = made(moved)
    assert outcomes["function walrelay.emit"] == outcomes["function walrelay.emit_and_delete"] == "updated"
    database.execute(EMIT, ["1"])
    assert (aggregates(database, "outbox"), aggregates(database, "app.outbox")) == ([], ["1"])
    assert told(moved) == [("ok", "every function that exists is of these settings and this version", "")]
    assert {outcome for what, outcome in made(moved).items() if "function" in what} == {"present"}


def test_the_functions_of_another_outbox_in_use_are_left_to_it(outbox: Outbox) -> None:
    database = outbox.database
    database.execute("CREATE SCHEMA app")
    second = changed(outbox, table="app.outbox", max_message_bytes=2_000_000, slot="second")
    outcomes = made(second)
    assert outcomes['table "app"."outbox"'] == "created"
    slot = outbox.settings.source.slot
    for name in ("emit", "emit_and_delete", "check_event_size"):
        assert outcomes[f"function walrelay.{name}"] == (
            f'left as it is: it belongs to "public"."outbox", which slot {slot} publishes; writers of "app"."outbox"'
            " insert their rows themselves"
        )
    database.execute(EMIT, ["1"])
    assert (aggregates(database, "outbox"), aggregates(database, "app.outbox")) == (["1"], [])
    assert {verdict for verdict, *_ in told(second)} == {"ok"}
    assert told(outbox.settings)[0][0] == "ok"
    assert {outcome for what, outcome in made(outbox.settings).items() if "function" in what} == {"present"}

    with Catalog(outbox.wiring.dsn) as catalog:
        list(drop_all(catalog, slot, None))
    assert made(second)["function walrelay.emit"] == "updated"
    with Catalog(compose.wiring(second).dsn) as catalog:
        list(drop_all(catalog, "second", "second"))


@pytest.mark.parametrize(
    ("option", "call", "error"),
    [
        ({"max_message_bytes": 2000}, "SELECT walrelay.emit('o', '1', 't', to_jsonb(repeat('x', 2000)))", "too large"),
        ({"columns": {"topic": None}}, EMIT.replace("%s", "'1'"), None),
    ],
)
def test_other_settings_reach_the_functions(
    option: dict[str, Any], call: str, error: str | None, outbox: Outbox
) -> None:
    if error is None:
        outbox.database.execute("ALTER TABLE outbox DROP COLUMN topic")
    settings = changed(outbox, **option)
    ((verdict, detail, _),) = told(settings)
    assert (verdict, "it was made for other settings" in detail) == ("warning", True)
    assert "updated" in made(settings).values()
    assert told(settings)[0][0] == "ok"
    if error is None:
        outbox.database.execute(call)
    else:
        with pytest.raises(Exception, match=error):
            outbox.database.execute(call)


def test_functions_of_the_version_before_are_replaced_and_run_until_then(outbox: Outbox) -> None:
    """They had no comment, and a settings file of then fits them."""
    database = outbox.database
    arguments = "text, text, text, jsonb, jsonb, text, text, uuid"
    database.execute(f"COMMENT ON FUNCTION walrelay.emit({arguments}) IS NULL")
    ((body,),) = database.execute("SELECT prosrc FROM pg_proc WHERE proname = 'emit'")
    definition = database.execute(f"SELECT pg_get_functiondef('walrelay.emit({arguments})'::regprocedure)")[0][0]
    database.execute(definition.replace("RETURN id;", "RETURN id;  -- as it was").replace("%", "%%"))
    with outbox.relay() as relay:
        database.execute(EMIT, ["1"])
        assert [message.key for message in outbox.messages(relay)] == [b"1"]
    ((verdict, detail, fix),) = told(outbox.settings)
    assert (verdict, detail, fix) == (
        "warning",
        f"function walrelay.emit: it is version 1, and this is {functions.VERSION}",
        "walrelay init",
    )
    assert made(outbox.settings)["function walrelay.emit"] == "updated"
    assert database.execute("SELECT prosrc FROM pg_proc WHERE proname = 'emit'") == [(body,)]


def test_what_was_changed_by_hand_or_by_a_later_version_stays(outbox: Outbox) -> None:
    database = outbox.database
    ((definition, comment),) = database.execute(
        "SELECT pg_get_functiondef(oid), obj_description(oid) FROM pg_proc WHERE proname = 'emit_and_delete'"
    )
    database.execute(definition.replace("RETURN id;", "RETURN id;  -- mine"))
    what = "function walrelay.emit_and_delete"
    assert (
        made(outbox.settings)[what]
        == "left as it is: it was changed by hand; drop it, and `walrelay init` creates walrelay's"
    )
    assert told(outbox.settings)[0][0] == "ok"
    later = comment.replace(f"version {functions.VERSION},", "version 99,")
    database.execute(
        f"COMMENT ON FUNCTION walrelay.emit_and_delete(text, text, text, jsonb, jsonb, text, text, uuid) IS $${later}$$"
    )
    assert made(outbox.settings)[what] == "left as it is: it is of a later version of walrelay (99)"
    database.execute("DROP FUNCTION walrelay.emit_and_delete")
    assert made(outbox.settings)[what] == "created"


def test_tables_of_an_earlier_version_are_told_and_brought_up_to_date(outbox: Outbox) -> None:
    outbox.database.execute("ALTER TABLE walrelay.slots DROP COLUMN backfill")
    ((verdict, detail, fix),) = told(outbox.settings)
    assert (verdict, fix) == ("warning", "walrelay init")
    assert "tables of the schema walrelay are of an earlier version" in detail
    assert made(outbox.settings)["schema walrelay"] == "created"
    assert told(outbox.settings)[0][0] == "ok"


@pytest.mark.parametrize(
    ("kind", "fits"),
    [("bigint", False), ("public.counted", False), ("text", True), ("short", True), ("event_id", True)],
)
def test_no_function_is_made_that_can_only_fail_for_the_type_of_the_id(
    database: Database, make_outbox: OutboxMaker, kind: str, fits: bool
) -> None:
    database.execute(
        "CREATE DOMAIN counted AS bigint; CREATE DOMAIN short AS varchar(36); CREATE DOMAIN event_id AS uuid;"
        f" CREATE TABLE outbox (id {kind} PRIMARY KEY, aggregate_type text, aggregate_id text, type text,"
        " payload jsonb, headers jsonb, topic text, tenant_id text)"
    )
    outcomes = make_outbox(outbox={"columns": {"created_at": None}}).init()
    for name in ("emit", "emit_and_delete"):
        outcome = outcomes[f"function walrelay.{name}"]
        if fits:
            assert outcome == "present"
            database.execute(f"SELECT walrelay.{name}('order', '1', 'Placed', '{{}}')")
        else:
            why = f"'id' is of type {kind} and takes no UUID; writers insert their rows themselves"
            assert outcome == f"left out: {why}"
            assert not database.execute("SELECT 1 FROM pg_proc WHERE proname = %s", [name])
