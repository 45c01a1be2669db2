"""Who asks the admin API: by token, certificate, a proxy's header, or nobody that is known."""

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from walrelay.admin.access import Caller, Door, new_token
from walrelay.cli.admin import admin
from walrelay.config.admin import AdminSettings

TOKEN, OTHER = new_token(), new_token()
TLS = {"certificate": "server.pem", "key": "server.key", "client_ca": "clients.pem"}


def door(**settings: Any) -> Door:
    return Door(AdminSettings.model_validate(settings))


def by_token(*shown: str, settings: dict[str, Any] | None = None) -> Caller | None:
    tokens = [{"name": "oncall", "sha256": TOKEN.sha256, "scope": "operate", "relays": ["orders"]}]
    return door(tokens=tokens, **settings or {}).caller({"authorization": shown}, "127.0.0.1", None)


def test_a_token_names_its_caller() -> None:
    expected = Caller("oncall", "token", "operate", frozenset({"orders"}))
    assert by_token(f"Bearer {TOKEN.token}") == expected
    assert by_token(f"bearer {TOKEN.token}") == expected


@pytest.mark.parametrize(
    "shown",
    [
        (f"Bearer {OTHER.token}",),
        (f"Basic {TOKEN.token}",),
        (TOKEN.token,),
        (f"Bearer {TOKEN.sha256}",),
        ("Bearer ",),
        ("Bearer \udcff",),
        (f"Bearer {TOKEN.token}", f"Bearer {TOKEN.token}"),
    ],
)
def test_anything_else_names_nobody(shown: tuple[str, ...]) -> None:
    assert by_token(*shown) is None


def test_a_wrong_token_is_nobody_even_where_something_else_is_right() -> None:
    proxy = {"addresses": ["127.0.0.1"], "callers": [{"name": "ada"}]}
    headers = {"authorization": [f"Bearer {OTHER.token}"], "x-forwarded-user": ["ada"]}
    assert door(proxy=proxy).caller(headers, "127.0.0.1", None) is None


def test_anybody_may_look_while_no_caller_is_known_and_nobody_afterwards() -> None:
    assert door().caller({}, "127.0.0.1", None) == Caller("anonymous", "anonymous", "read")
    assert door(anonymous="operate").caller({}, "127.0.0.1", None) == Caller("anonymous", "anonymous", "operate")
    assert by_token() is None


def test_a_token_where_none_is_written_is_nobody() -> None:
    assert door().caller({"authorization": [f"Bearer {TOKEN.token}"]}, "127.0.0.1", None) is None


@pytest.mark.parametrize(
    ("address", "told", "known"),
    [
        ("10.0.0.7", ["ada"], True),
        ("::ffff:10.0.0.7", ["ada"], True),
        ("10.0.1.7", ["ada"], False),
        ("testclient", ["ada"], False),
        ("10.0.0.7", ["eve"], False),
        ("10.0.0.7", ["ada", "ada"], False),
        ("10.0.0.7", [], False),
    ],
)
def test_a_proxy_is_believed_at_its_address_about_callers_that_are_known(
    address: str, told: list[str], known: bool
) -> None:
    proxy = {"addresses": ["10.0.0.0/24"], "callers": [{"name": "ada", "scope": "admin"}]}
    found = door(proxy=proxy).caller({"x-forwarded-user": told}, address, None)
    assert found == (Caller("ada", "proxy", "admin") if known else None)


def test_a_certificate_is_known_by_its_common_name() -> None:
    some = door(tls=TLS, certificates=[{"name": "backup"}])
    assert some.caller({}, "10.0.0.9", "backup") == Caller("backup", "certificate", "read")
    assert some.caller({}, "10.0.0.9", "other") is None
    assert some.caller({}, "10.0.0.9", None) is None


def test_a_scope_includes_those_before_it() -> None:
    operate = Caller("x", "token", "operate")
    assert [operate.may(each) for each in ("read", "operate", "admin")] == [True, True, False]


def test_a_caller_sees_all_relays_or_those_that_are_named() -> None:
    assert Caller("x", "token", "read").sees("orders")
    assert not Caller("x", "token", "read", frozenset({"invoices"})).sees("orders")


def test_the_command_makes_a_token_and_the_line_for_the_settings() -> None:
    done = CliRunner().invoke(admin, ["token", "on call", "--scope", "operate"])
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("- ")]
    (written,) = yaml.safe_load(line)
    assert written["name"] == "on call"
    settings = AdminSettings(tokens=(written,))
    headers = {"authorization": [f"Bearer {done.stdout.strip()}"]}
    assert Door(settings).caller(headers, "127.0.0.1", None) == Caller("on call", "token", "operate")
    assert done.stdout.strip() not in done.stderr
    assert written["sha256"] not in json.dumps(settings.model_dump(mode="json"))


def test_a_name_that_is_none_is_refused() -> None:
    done = CliRunner().invoke(admin, ["token", "a\nb"])
    assert done.exit_code == 2
    assert "is no name" in done.stderr
