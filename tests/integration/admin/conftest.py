"""The admin API of a settings file on a real database, asked without a network."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from tests.servers.database import Database
from walrelay.admin.access import NewToken, new_token
from walrelay.admin.app import guarded
from walrelay.admin.jobs import Jobs
from walrelay.admin.relays import AdminRelays
from walrelay.admin.watching import AdminWatch
from walrelay.cli import main
from walrelay.config.admin import AdminSettings

TOKENS: dict[str, NewToken] = {scope: new_token() for scope in ("read", "operate", "admin")}
ONE_RELAY = new_token()


def admin_section(*visible: str, **more: Any) -> dict[str, Any]:
    tokens: list[dict[str, Any]] = [
        {"name": scope, "sha256": made.sha256, "scope": scope} for scope, made in TOKENS.items()
    ]
    tokens.append({"name": "one", "sha256": ONE_RELAY.sha256, "scope": "admin", "relays": [*visible]})
    return {"tokens": tokens, "requests_per_second": 1000, **more}


def initialize(config: Path) -> None:
    main.main(["init", "--config", str(config)], standalone_mode=False)


class Api:
    """The app of a settings file, and whoever asks it."""

    def __init__(self, config: Path) -> None:
        self.config, self.bugs = config, list[Exception]()
        written = yaml.safe_load(config.read_text())
        settings = AdminSettings.model_validate(written.get("defaults", written)["admin"])
        self.jobs = Jobs()
        self.relays = AdminRelays(config, settings, lambda name: f" --relay {name}" if name else "")
        self.watch = AdminWatch(self.relays, settings.sample_interval).__enter__()
        app: Any = guarded(self.relays, self.jobs, self.watch, settings, self.bugs.append)
        self.client = TestClient(app, base_url="http://127.0.0.1:8642/api/v1", client=("127.0.0.1", 50_000))

    def init(self) -> None:
        initialize(self.config)

    def get(self, path: str, *, scope: str = "read", token: str = "", **parameters: Any) -> Any:
        return self.client.get(path, params=parameters, headers=self._shown(scope, token))

    def post(self, path: str, body: Any = None, *, scope: str = "operate", token: str = "") -> Any:
        return self.client.post(path, json={} if body is None else body, headers=self._shown(scope, token))

    def put(self, path: str, body: Any, *, scope: str = "operate", token: str = "") -> Any:
        return self.client.put(path, json=body, headers=self._shown(scope, token))

    def delete(self, path: str, *, scope: str = "operate", token: str = "") -> Any:
        headers = {**self._shown(scope, token), "Content-Type": "application/json"}
        return self.client.delete(path, headers=headers)

    def _shown(self, scope: str, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token or TOKENS[scope].token}"}


MakeApi = Callable[..., Api]


@contextmanager
def made_api(
    directory: Path, *, relays: dict[str, dict[str, Any]] | None = None, init: bool = True, **sections: Any
) -> Iterator[Api]:
    """From sections of the settings, or from `relays`, each with sections; init is run for each database."""
    config = directory / "walrelay.yaml"
    admin = sections.pop("admin", None) or admin_section(*list(relays or ())[:1])
    document = {**sections, "admin": admin}
    config.write_text(yaml.safe_dump(document if relays is None else {"defaults": document, "relays": relays}))
    if init:
        initialize(config)
    api = Api(config)
    try:
        yield api
    finally:
        api.jobs.close()
        api.watch.__exit__()
        api.relays.close()
    assert api.bugs == []


@pytest.fixture
def make_api(tmp_path: Path) -> Iterator[MakeApi]:
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(made_api(tmp_path, **settings))


@pytest.fixture
def api(make_api: MakeApi, database: Database) -> Api:
    """One relay, whose broker keeps messages in memory."""
    return make_api(**sections_of(database))


def sections_of(database: Database, **more: Any) -> dict[str, Any]:
    return {"source": {"dsn": database.dsn, "slot": database.name}, "sink": {"kind": "memory"}, **more}


def refused(answer: Any, status: int, *said: str) -> dict[str, Any]:
    """A problem that says what happened and where, and these words."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told["status"] == status
    assert told["instance"].startswith("/api/v1")
    for words in said:
        assert words in f"{told['detail']} {told['hint']}"
    return told
