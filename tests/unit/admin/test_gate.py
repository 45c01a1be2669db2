"""What every request passes before a route sees it."""

import asyncio
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.testclient import TestClient

from walrelay.admin.access import new_token
from walrelay.admin.gate import SECURITY_HEADERS, AdminGate, Receive, Send
from walrelay.admin.problems import MEDIA_TYPE
from walrelay.config.admin import AdminSettings

HERE = "http://127.0.0.1:8642"
JSON = {"Content-Type": "application/json"}
TOKEN = new_token()


async def echo(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    caller = scope["state"]["caller"]
    await JSONResponse({"caller": caller.name, "body": body.decode()})(scope, receive, send)


def client(
    *, app: Any = echo, base_url: str = HERE, bugs: list[Exception] | None = None, **settings: Any
) -> TestClient:
    found: list[Exception] = [] if bugs is None else bugs
    gate = AdminGate(app, AdminSettings.model_validate(settings), found.append)
    return TestClient(gate, base_url=base_url, client=("127.0.0.1", 50_000))


def refused(answer: Any, status: int) -> dict[str, Any]:
    """A problem, with everything that a problem has."""
    assert answer.status_code == status
    assert answer.headers["content-type"] == MEDIA_TYPE
    told: dict[str, Any] = answer.json()
    assert told["status"] == status
    assert told["title"]
    assert told["detail"]
    assert told["instance"] == "/x"
    return told


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9", "localhost:8642", "LOCALHOST", "[::1]:8642"])
def test_this_machine_is_a_host_of_the_api(host: str) -> None:
    assert client().get("/x", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8642", ""])
def test_a_name_that_somebody_else_gave_to_this_machine_is_refused(host: str) -> None:
    refused(client().get("/x", headers={"Host": host}), 421)


def test_further_hosts_are_in_the_settings() -> None:
    assert client(hosts=["walrelay.internal"]).get("/x", headers={"Host": "walrelay.internal"}).status_code == 200


def test_on_every_address_any_host_is_right_because_the_caller_must_be_known_anyway() -> None:
    tokens = [{"name": "x", "sha256": TOKEN.sha256}]
    some = client(listen="0.0.0.0:8642", tokens=tokens, base_url="http://relay.example")
    assert some.get("/x", headers={"Authorization": f"Bearer {TOKEN.token}"}).status_code == 200
    refused(some.get("/x"), 401)


def test_who_is_not_known_is_told_what_to_show() -> None:
    answer = client(tokens=[{"name": "x", "sha256": TOKEN.sha256}]).get("/x")
    told = refused(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "walrelay admin token" in told["hint"]


def test_who_guesses_tokens_is_soon_not_heard() -> None:
    some = client(tokens=[{"name": "x", "sha256": TOKEN.sha256}])
    for _ in range(10):
        refused(some.get("/x", headers={"Authorization": "Bearer wrong"}), 401)
    answer = some.get("/x", headers={"Authorization": f"Bearer {TOKEN.token}"})
    refused(answer, 429)
    assert int(answer.headers["retry-after"]) > 0


def test_who_asks_too_often_is_told_when_to_ask_again() -> None:
    some = client(requests_per_second=1)
    answers = [some.get("/x") for _ in range(30)]
    assert answers[0].status_code == 200
    assert answers[-1].status_code == 429
    assert answers[-1].headers["retry-after"] == "1"


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain", ""])
def test_a_form_of_a_browser_changes_nothing(kind: str) -> None:
    refused(client().post("/x", content=b"{}", headers={"Content-Type": kind}), 415)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_page_of_another_origin_changes_nothing(method: str) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        refused(client().request(method, "/x", headers={**JSON, **headers}), 403)


def test_a_page_of_the_same_origin_may() -> None:
    headers = {**JSON, "Origin": HERE, "Sec-Fetch-Site": "same-origin"}
    assert client().post("/x", json={"a": 1}, headers=headers).json()["body"] == '{"a":1}'


def test_a_body_that_is_too_large_is_refused_by_its_length_and_by_its_bytes() -> None:
    some = client(max_body=1024)
    assert some.post("/x", content=b"x" * 1024, headers=JSON).status_code == 200
    refused(some.post("/x", content=b"x" * 1025, headers=JSON), 413)

    def parts() -> Iterator[bytes]:
        yield from [b"x" * 512] * 3

    refused(some.post("/x", content=parts(), headers=JSON), 413)


def test_a_request_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.admin.gate._SLOW", 0.05)
    sent: list[MutableMapping[str, Any]] = []

    async def never() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/x", "headers": headers, "client": ("127.0.0.1", 1)}
    asyncio.run(AdminGate(echo, AdminSettings(), lambda error: None)(scope, never, send))
    assert sent[0]["status"] == 408


def test_every_answer_has_the_headers_that_keep_browsers_out() -> None:
    for answer in (client().get("/x"), client().post("/x"), client().get("/x", headers={"Host": "evil.example"})):
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers[name] == value
        assert "unsafe-inline" not in answer.headers["content-security-policy"]
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_an_error_that_nobody_foresaw_is_told_without_a_traceback_and_reported() -> None:
    async def broken(scope: object, receive: Receive, send: Send) -> None:
        raise KeyError("password=hunter2 at /srv/x.py")

    bugs: list[Exception] = []
    answer = client(app=broken, bugs=bugs).get("/x")
    told = refused(answer, 500)
    assert "this is a bug in walrelay" in told["detail"]
    assert "Traceback" not in answer.text
    assert "hunter2" not in answer.text
    assert [type(each) for each in bugs] == [KeyError]
