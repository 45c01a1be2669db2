"""The routing rules tried by way of the admin API, as `walrelay route test` does."""

import json

from click.testing import CliRunner

from tests.integration.admin.conftest import TOKENS, MakeApi, refused, sections_of
from tests.servers.database import Database
from walrelay.cli import main

RULES = [{"name": "noise", "when": {"type": "Noise"}, "drop": True}, {"name": "rest", "topic": "orders.{type|kebab}"}]
RECORDS = [{"id": "1", "type": "OrderPlaced", "payload": {"a": 1}}, {"id": "2", "type": "Noise"}]


def test_the_answer_is_that_of_the_command(make_api: MakeApi, database: Database) -> None:
    api = make_api(**sections_of(database, routes=RULES))
    path = f"/relays/{database.name}/route-test"
    results = api.post(path, {"records": RECORDS}).json()["results"]
    lines = "".join(json.dumps(each) + "\n" for each in RECORDS)
    done = CliRunner().invoke(main, ["route", "test", "--json", "-c", str(api.config)], input=lines)
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["messages"] for each in results] == [each["messages"] for each in printed]
    assert results[0]["messages"][0]["topic"] == "orders.order-placed"
    assert [each["dropped"] for each in results] == [False, True]
    assert results[0]["rules"][0] == {
        "rule": "noise",
        **{k: v for k, v in printed[0]["rules"][0].items() if k != "rule"},
    }
    refused(api.post(path, {"records": [{"type": "x"}]}), 422, "body.records.0: this is not a record", "walrelay tail")
    headers = {"Authorization": f"Bearer {TOKENS['operate'].token}", "Content-Type": "application/json"}
    half = api.client.post(path, content=rb'{"records": [{"id": "\ud800"}]}', headers=headers)
    refused(half, 422, "body.records.0: this is not a record")
    refused(api.post(path, {"records": RECORDS}, scope="read"), 403, "operate")
