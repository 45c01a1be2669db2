"""The admin API as commands ask it."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import click
import pytest

from walrelay.cli.remote import RemoteApi
from walrelay.errors import Fatal


class Answering:
    """An API that gives these answers, in turn; what it was asked is kept."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, str, str | None]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answering = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                self.rfile.read(length)
                answering.asked.append((self.command, self.path, self.headers.get("Authorization")))
                status, body = answering.answers.pop(0)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            do_POST = do_GET  # noqa: N815 -- the library's name

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def api() -> Iterator[Answering]:
    made = Answering()
    thread = Thread(target=made.server.serve_forever, args=[0.02])
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


def test_the_token_is_shown_and_what_is_not_given_is_not_asked(api: Answering) -> None:
    api.answers = [(200, {"rows": []})]
    assert RemoteApi(f"{api.url}/", {"WALRELAY_TOKEN": "secret"}).get("/x", id="a b", key=None) == {"rows": []}
    assert api.asked == [("GET", "/api/v1/x?id=a+b", "Bearer secret")]


def test_a_problem_is_told_in_the_words_of_the_api(api: Answering) -> None:
    errors = [{"where": "body.reason", "detail": "too long"}]
    api.answers = [(409, {"detail": "there is no slot", "hint": "walrelay init", "errors": errors})]
    with pytest.raises(Fatal, match=r"there is no slot; body\.reason: too long") as told:
        RemoteApi(api.url, {}).post("/x", {})
    assert told.value.hint == "walrelay init"


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (500, b"<html>", "status 500"),
        (502, ["bad gateway"], "status 502"),
        (403, {"errors": ["no"], "hint": {}}, "status 403"),
        (200, b"<html>", "no answer"),
    ],
)
def test_an_answer_of_somebody_else_is_told(api: Answering, status: int, body: Any, said: str) -> None:
    api.answers = [(status, body)]
    with pytest.raises(Fatal, match=said):
        RemoteApi(api.url, {}).get("/x")


def test_a_token_is_not_taken_elsewhere(api: Answering) -> None:
    api.answers = [(302, {})]
    with pytest.raises(Fatal, match="status 302"):
        RemoteApi(api.url, {"WALRELAY_TOKEN": "secret"}).get("/x")
    assert len(api.asked) == 1


def test_who_is_not_known_hears_where_a_token_comes_from(api: Answering) -> None:
    api.answers = [(401, {"detail": "nobody is known"})]
    with pytest.raises(Fatal) as told:
        RemoteApi(api.url, {}).get("/x")
    assert "WALRELAY_TOKEN" in (told.value.hint or "")


def test_nobody_there_is_told() -> None:
    with pytest.raises(Fatal, match=r"the admin API at http://127\.0\.0\.1:1 gives no answer"):
        RemoteApi("http://127.0.0.1:1", {}).get("/x")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "walrelay.internal:8642", "http://", "http://x/?y=1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(click.BadParameter, match="no address"):
        RemoteApi(url, {})


def test_the_only_relay_need_not_be_named(api: Answering) -> None:
    relays = [{"name": "a/b", "in_settings": True}, {"name": "theirs", "in_settings": False}]
    api.answers = [(200, {"relays": relays}), (200, {"relays": [*relays, {"name": "c", "in_settings": True}]})]
    assert RemoteApi(api.url, {}).relay("") == ("a/b", "/relays/a%2Fb")
    with pytest.raises(click.UsageError, match="a/b, c"):
        RemoteApi(api.url, {}).relay("")


def test_a_job_is_followed_until_it_ends(api: Answering) -> None:
    remote = RemoteApi(api.url, {})
    relay = remote.relay("orders")
    api.answers = [(200, {"state": "running"}), (200, {"state": "done"})]
    assert [job["state"] for job in remote.job(relay, {"job": 7}, Event())] == ["running", "done"]
    api.answers = [(200, {"state": "failed", "error": "the broker is away", "hint": "wait"})]
    with pytest.raises(Fatal, match="the broker is away"):
        list(remote.job(relay, {"job": 7}, Event()))
    assert list(remote.job(relay, {"job": None}, Event())) == []
