"""The files of the console: everybody who reaches the API may load them, and nothing else than them runs."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.unit.admin.test_gate import TOKEN, client
from walrelay.admin.app import api

KNOWN = {"tokens": [{"name": "oncall", "sha256": TOKEN.sha256}]}


def console(**settings: Any) -> TestClient:
    return client(app=api(), **settings)


def test_the_page_needs_no_caller_and_the_api_does() -> None:
    page = console(**KNOWN).get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert console(**KNOWN).get("/api/v1/openapi.json").status_code == 401


def test_scripts_and_styles_come_from_this_server_only_and_no_page_may_frame_it() -> None:
    headers = console().get("/").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_a_page_that_did_not_change_is_not_sent_again() -> None:
    one = console()
    first = one.get("/")
    assert first.headers["cache-control"] == "no-cache"
    assert first.headers["etag"]


@pytest.mark.parametrize("path", ["/console/../app.py", "/console/%2e%2e/app.py", "/console/..%2fapp.py", "/console/"])
def test_nothing_beside_the_files_of_the_console_is_served(path: str) -> None:
    assert console(**KNOWN).get(path).status_code in (401, 404)


def test_another_host_gets_no_page() -> None:
    assert console().get("/", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_the_page_is_only_read(method: str) -> None:
    assert console(**KNOWN).request(method, "/").status_code == 401
