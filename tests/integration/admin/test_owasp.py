"""OWASP's ten risks of APIs (2023), each as tests over all routes of the document: a new route is asked the same."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from fastapi.routing import APIRoute

from tests.integration.admin.conftest import ONE_RELAY, TOKENS, Api, MakeApi, refused
from tests.servers.database import Database
from walrelay.admin.access import new_token
from walrelay.admin.app import ROUTERS, openapi_document
from walrelay.admin.app import api as routes
from walrelay.admin.gate import SECURITY_HEADERS

DOCUMENT = openapi_document(routes())
SCOPES = ("read", "operate", "admin")
SELECT = {"select": {"everything": True}, "dry_run": True}
BODIES: dict[str, Any] = {
    "route-test": {"records": [{"id": "1"}]},
    "replay": SELECT,
    "dead-letters/replay": SELECT,
    "audit": {},
    "cleanup": {"older_than_seconds": 1, "dry_run": True},
    "discard": {**SELECT, "reason": "x"},
    "edit": {"record": {"payload": "1"}, "reason": "x"},
    "pause": {"reason": "x"},
    "resume": {},
    "restart": {},
    "drain": {},
    "cancel": {},
}
QUERIES: dict[str, Any] = {"rows": {"id": "1"}, "stream": {"seconds": 0}}


class Operation(NamedTuple):
    """A route of the document."""

    method: str
    path: str
    operation: dict[str, Any]

    @property
    def scope(self) -> str:
        found: set[str] = {scope for each in self.operation["security"] for scopes in each.values() for scope in scopes}
        return max(found, key=SCOPES.index)

    def of(self, relay: str) -> str:
        """The path for that relay, below the API's; other parameters are a number."""
        return re.sub(r"\{\w+\}", "1", self.path.replace("{relay}", relay)).removeprefix("/api/v1")

    @property
    def body(self) -> Any:
        of = self.path.rpartition("{relay}/")[2]
        return BODIES.get(of, BODIES.get(of.rpartition("/")[2]))

    def ask(self, api: Api, relay: str, token: str | None) -> Any:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        query = QUERIES.get(self.path.rpartition("/")[2])
        return api.client.request(self.method, self.of(relay), params=query, json=self.body, headers=headers)


OPERATIONS = [
    Operation(method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
ANSWERED = (200, 202, 404, 409)  # the last two: nothing is there, no relay runs


def body_models() -> Iterator[str]:
    """The names of all models that a request's body may hold."""
    models, left = DOCUMENT["components"]["schemas"], [each.operation.get("requestBody") for each in OPERATIONS]
    found = set[str]()
    while left:
        for name in set(re.findall(r"#/components/schemas/(\w+)", json.dumps(left.pop()))) - found:
            found.add(name)
            left.append(models[name])
            yield name


STORED = r"^[^\x00]*$"
BODY_MODELS = tuple(body_models())
OF_A_RELAY = [each for each in OPERATIONS if "{relay}" in each.path]


def each_of(operations: list[Operation]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("operation", operations, ids=lambda each: f"{each.method} {each.path}")


def schemas() -> Iterator[dict[str, Any]]:
    """Of all that a request may hold: parameters, and the models of bodies with those they use."""
    for each in OPERATIONS:
        yield from (parameter["schema"] for parameter in each.operation.get("parameters", []))
    models = DOCUMENT["components"]["schemas"]
    for name in BODY_MODELS:
        yield from models[name].get("properties", {}).values()


def parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for inner in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from parts(inner)


@pytest.fixture
def two(make_api: MakeApi, database: Database) -> Api:
    relays = {name: {"source": {"dsn": database.dsn, "slot": f"{database.name}_{name}"}} for name in ("mine", "other")}
    return make_api(sink={"kind": "memory"}, relays=relays)


@each_of(OF_A_RELAY)
def test_api1_a_relay_of_others_does_not_exist(two: Api, operation: Operation) -> None:
    refused(operation.ask(two, "other", ONE_RELAY.token), 404, "there is no relay 'other'")
    assert operation.ask(two, "mine", ONE_RELAY.token).status_code in ANSWERED


@each_of(OPERATIONS)
def test_api2_nobody_is_answered_without_a_token_that_is_right(
    api: Api, database: Database, operation: Operation
) -> None:
    for token in (None, "", "x", new_token().token, TOKENS["admin"].sha256):
        answer = operation.ask(api, database.name, token)
        assert answer.status_code == 401
        assert database.name not in answer.text.replace(operation.of(database.name), "")


def test_api3_no_member_can_be_written_that_is_not_named(api: Api, database: Database) -> None:
    """Nor one of what is in it; but a record has whatever members it has."""
    asked = [each for each in OPERATIONS if "requestBody" in each.operation]
    assert len(asked) > 10
    for operation in asked:
        inner = [name for name, value in operation.body.items() if isinstance(value, dict) and name != "record"]
        bodies = [{**operation.body, more: "x"} for more in ("caller", "state", "paused_by", "slot")]
        bodies += [{**operation.body, name: {**operation.body[name], "by": "x"}} for name in inner]
        for body in bodies:
            path, headers = operation.of(database.name), {"Authorization": f"Bearer {TOKENS['admin'].token}"}
            answer = api.client.request(operation.method, path, json=body, headers=headers)
            refused(answer, 422, "Extra inputs are not permitted")
    assert api.get(f"/relays/{database.name}/jobs").json()["jobs"] == []


def test_api4_everything_that_a_request_may_hold_has_an_end() -> None:
    found = [part for schema in schemas() for part in parts(schema)]
    assert len(found) > 30
    for part in found:
        if part.get("type") == "string" and "format" not in part and "enum" not in part:
            assert "maxLength" in part, part
            assert part["pattern"] == STORED, "PostgreSQL would refuse a NUL in its own words"
        if part.get("type") == "integer":
            assert "maximum" in part or "exclusiveMaximum" in part, part
        if part.get("type") == "array" and "enum" not in part["items"]:
            assert "maxItems" in part, part


@each_of(OPERATIONS)
def test_api5_each_route_takes_its_scope(api: Api, database: Database, operation: Operation) -> None:
    for scope in SCOPES:
        answer = operation.ask(api, database.name, TOKENS[scope].token)
        if SCOPES.index(scope) < SCOPES.index(operation.scope):
            refused(answer, 403, scope)
        else:
            assert answer.status_code in ANSWERED, answer.text


def test_api5_what_changes_something_takes_more_than_read() -> None:
    changing = [each for each in OPERATIONS if each.method != "GET"]
    assert changing
    assert {each.scope for each in changing} <= {"operate", "admin"}


def test_api6_nothing_is_changed_in_bulk_by_leaving_something_out(api: Api, database: Database) -> None:
    bodies: list[dict[str, Any]] = [{}, {"select": {}}, {"select": {"everything": False}}, {"select": {"ids": None}}]
    for body in bodies:
        answer = api.post(f"/relays/{database.name}/dead-letters/discard", {**body, "reason": "x"}, scope="admin")
        refused(answer, 422)
        for path in ("dead-letters/replay", "replay"):
            refused(api.post(f"/relays/{database.name}/{path}", body, scope="admin"), 422)
    refused(api.post(f"/relays/{database.name}/cleanup", {}, scope="admin"), 422, "how old")
    assert api.get(f"/relays/{database.name}/jobs").json()["jobs"] == []


def test_api7_no_request_says_where_to_connect_to_or_which_file_to_read() -> None:
    named = {parameter["name"] for each in OPERATIONS for parameter in each.operation.get("parameters", [])}
    for name in BODY_MODELS:
        named |= DOCUMENT["components"]["schemas"][name].get("properties", {}).keys()
    assert not [name for name in named if re.search(r"url|uri|host|dsn|file|path|command", name)]
    assert '"format": "uri"' not in json.dumps(DOCUMENT)


@each_of(OPERATIONS)
def test_api8_every_answer_keeps_browsers_out_and_other_methods_are_refused(
    api: Api, database: Database, operation: Operation
) -> None:
    headers = {"Authorization": f"Bearer {TOKENS['admin'].token}", "Content-Type": "application/json"}
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD"):
        if method == operation.method:
            answer = operation.ask(api, database.name, TOKENS["admin"].token)
        elif method.lower() in DOCUMENT["paths"][operation.path]:
            continue
        else:
            answer = api.client.request(method, operation.of(database.name), headers=headers)
            assert answer.status_code == 405
        assert (
            SECURITY_HEADERS.items() <= dict(answer.headers).items()
            or {name.lower() for name in SECURITY_HEADERS} <= answer.headers.keys()
        )
        assert not [name for name in answer.headers if name.startswith(("access-control-", "server", "x-powered"))]


def test_api9_the_document_has_every_route_and_one_version() -> None:
    known = {(each.method, each.path) for each in OPERATIONS}
    served = {
        (method, f"/api/v1{route.path_format}")
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert served | {("GET", "/api/v1/openapi.json")} == known
    assert all(path.startswith("/api/v1/") for _, path in served)


def test_api10_what_the_broker_or_the_database_says_is_data(api: Api, database: Database) -> None:
    database.execute(
        "INSERT INTO walrelay.dead_letters (slot_name, commit_lsn, ordinal, record_id, sink, topic, status, error,"
        " reason, attempts) VALUES (%s, '0/1', 0, %s, 's', 't', 'waiting', '</script>', %s, 1)",
        [database.name, '\u2028"><img src=x>', "<script>alert(1)</script>\x1b[2J"],
    )
    answer = api.get(f"/relays/{database.name}/dead-letters", scope="operate")
    (letter,) = answer.json()["dead_letters"]
    assert letter["reason"] == "<script>alert(1)</script>\x1b[2J"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "\x1b" not in answer.text
