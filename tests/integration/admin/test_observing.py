"""What the admin API says of relays: their list, status, settings, and what the doctor finds."""

import json
from concurrent.futures import ThreadPoolExecutor

from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from tests.conftest import PostgresMaker
from tests.integration.admin.conftest import ONE_RELAY, Api, MakeApi, refused, sections_of
from tests.servers.database import Database
from walrelay.cli import main


def test_a_relay_is_listed_with_the_status_that_the_command_prints(api: Api, database: Database) -> None:
    (relay,) = api.get("/relays").json()["relays"]
    printed = json.loads(CliRunner().invoke(main, ["status", "--json", "-c", str(api.config)]).stdout)
    assert relay["name"] == relay["slot"] == database.name
    assert relay["sinks"] == ["memory"]
    assert relay["problem"] is None
    assert relay["status"].keys() == printed.keys()
    for name in ("slot", "plugin", "confirmed_lsn", "active", "dead_letters", "leader", "standbys", "problems"):
        assert relay["status"][name] == printed[name]
    assert api.get(f"/relays/{database.name}").json()["status"] == relay["status"]


def test_the_password_of_the_database_is_nowhere(make_api: MakeApi, database: Database) -> None:
    dsn = make_conninfo(database.dsn, password="hunter2")
    api = make_api(**sections_of(database) | {"source": {"dsn": dsn, "slot": database.name}})
    for path in ("", "/doctor", "/settings"):
        answer = api.get(f"/relays/{database.name}{path}", scope="admin")
        assert answer.status_code == 200
        assert "hunter2" not in answer.text


def test_relays_come_in_pages_of_what_the_caller_sees(make_api: MakeApi, database: Database) -> None:
    relays = {name: {"source": {"dsn": database.dsn, "slot": f"{database.name}_{name}"}} for name in "abc"}
    api = make_api(sink={"kind": "memory"}, relays=relays)
    first = api.get("/relays", limit=2).json()
    assert ([each["name"] for each in first["relays"]], first["next"]) == (["a", "b"], "b")
    second = api.get("/relays", limit=2, after="b").json()
    assert ([each["name"] for each in second["relays"]], second["next"]) == (["c"], None)
    (only,) = api.get("/relays", token=ONE_RELAY.token).json()["relays"]
    assert only["name"] == "a"
    refused(api.get("/relays/b", token=ONE_RELAY.token), 404, "there is no relay 'b'")


def test_a_relay_that_cannot_be_asked_has_a_problem_and_the_others_a_status(
    make_api: MakeApi, database: Database
) -> None:
    nowhere = {"source": {"dsn": "postgresql://x:hunter2@127.0.0.1:1/x", "slot": "nowhere"}}
    relays = {"here": {"source": {"dsn": database.dsn, "slot": database.name}}, "away": nowhere}
    api = make_api(sink={"kind": "memory"}, relays=relays, init=False)
    of = {each["name"]: each for each in api.get("/relays").json()["relays"]}
    here, away = of["here"], of["away"]
    assert "walrelay init" in here["problem"]["hint"]
    assert here["problem"]["status"] == 409
    assert away["problem"]["status"] == 503
    assert "hunter2" not in json.dumps(away)
    answer = api.get("/relays/away")
    refused(answer, 503, "no connection to PostgreSQL at 127.0.0.1:1")
    assert answer.headers["retry-after"] == "1"


def test_the_doctors_findings_are_those_of_the_command(api: Api, database: Database) -> None:
    found = api.get(f"/relays/{database.name}/doctor").json()
    printed = json.loads(CliRunner().invoke(main, ["doctor", "--json", "-c", str(api.config)]).stdout)
    assert found["ready"] is True
    assert [each["subject"] for each in found["findings"]] == [each["subject"] for each in printed["findings"]]


def test_settings_are_shown_whole_but_for_secrets(make_api: MakeApi, database: Database) -> None:
    options = {"sasl.username": "walrelay", "sasl.password": "hunter2", "ssl.key.password": "hunter2"}
    sink = {"kind": "kafka", "bootstrap_servers": "127.0.0.1:1", "options": options}
    api = make_api(**sections_of(database) | {"sink": sink})
    settings = api.get(f"/relays/{database.name}/settings", scope="admin").json()
    assert settings["source"]["slot"] == database.name
    assert f"dbname={database.name}" in settings["source"]["dsn"]
    assert settings["source"]["confirm_interval"] == 0.1
    assert settings["sink"]["settings"]["bootstrap_servers"] == "127.0.0.1:1"
    assert settings["sink"]["settings"]["options"].keys() == options.keys()
    text = json.dumps(settings)
    assert "hunter2" not in text
    for written in json.loads(json.dumps(settings["admin"]["tokens"])):
        assert set(written["sha256"]) == {"*"}
    refused(api.get(f"/relays/{database.name}/settings", scope="operate"), 403, "admin")


def test_many_requests_cost_the_database_one_question(api: Api, database: Database) -> None:
    path = f"/relays/{database.name}"
    with ThreadPoolExecutor(8) as executor:
        answers = [*executor.map(lambda _: api.get(path).json()["status"]["current_lsn"], range(50))]
    assert len({*answers}) == 1
    ((connections,),) = database.server.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND application_name = 'walrelay control'",
        [database.name],
    )
    assert connections <= 2  # one of them looks at all relays now and then


def test_a_server_that_was_restarted_is_asked_by_a_new_connection(
    make_api: MakeApi, private_postgres: PostgresMaker
) -> None:
    server = private_postgres()
    database = server.create_database()
    api = make_api(**sections_of(database))
    assert api.get(f"/relays/{database.name}").status_code == 200
    server.restart()
    relay = api.relays.found().relays[database.name]
    with relay.catalog() as catalog:
        assert catalog.value("SELECT 1") == 1


def test_what_is_not_there_is_a_problem_with_the_way_on(api: Api) -> None:
    refused(api.get("/nothing"), 404, "/api/v1/openapi.json")
    refused(api.post("/relays"), 405)
    refused(api.get("/relays/nobody"), 404, "GET /api/v1/relays")
    told = refused(api.get("/relays", limit=0), 422, "query.limit")
    assert told["errors"][0]["where"] == "query.limit"


def test_the_document_says_what_there_is_and_what_it_takes(api: Api) -> None:
    document = api.get("/openapi.json").json()
    assert "/api/v1/relays/{relay}/doctor" in document["paths"]
    for path in document["paths"].values():
        for operation in path.values():
            assert operation["security"]
            assert [*operation["responses"]["default"]["content"]] == ["application/problem+json"]
