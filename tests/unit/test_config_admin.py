"""The section `admin`: who may ask must be said before other machines can."""

import pytest

from tests.unit.refused_settings import problems_of
from walrelay.config import parse
from walrelay.config.reading import parse_relays

FILE = "source: {dsn: postgresql://localhost/shop}\nsink: {kind: memory}\nadmin: {ADMIN}\n"
HASH = "a" * 64


def problems(admin: str) -> list[str]:
    return problems_of(lambda: parse(FILE.replace("ADMIN", admin), "walrelay.yaml", {}))


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "127.8.8.8:1", "localhost:1", "'[::1]:1'"])
def test_loopback_needs_nobody(listen: str) -> None:
    assert parse(FILE.replace("ADMIN", f"listen: {listen}"), "x", {}).admin.address[1] == 1


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "10.0.0.1:1", "relay.example:1", "'[::]:1'"])
def test_other_machines_are_let_in_only_where_callers_are_known(listen: str) -> None:
    (problem,) = problems(f"listen: {listen}")
    assert problem.startswith("3: admin.listen: ")
    assert "walrelay admin token NAME" in problem
    token = f"tokens: [{{name: x, sha256: {HASH}}}]"
    assert parse(FILE.replace("ADMIN", f"listen: {listen}, {token}"), "x", {}).admin.knows_callers


def test_a_hash_that_is_none_is_refused_without_being_shown() -> None:
    (problem,) = problems("tokens: [{name: x, sha256: walrelay_hunter2}]")
    assert "admin.tokens[0].sha256: is no SHA-256" in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    ("admin", "said"),
    [
        (f"tokens: [{{name: x, sha256: {HASH}}}, {{name: x, sha256: {'b' * 64}}}]", "admin.tokens[1].name: 'x' is"),
        (f"tokens: [{{name: x, sha256: {HASH}}}, {{name: y, sha256: {HASH}}}]", "admin.tokens: two have the same"),
        ("certificates: [{name: x}]", "admin.certificates: clients show no certificate without `tls.client_ca`"),
        ("proxy: {addresses: [], callers: []}", "admin.proxy.addresses"),
        ("proxy: {addresses: [proxy], callers: []}", "'proxy' is neither an address nor a network"),
        ("proxy: {addresses: [10.0.0.1], header: Host, callers: []}", "cannot be the header of a proxy"),
        ("listen: '8642'", "is no address"),
    ],
)
def test_what_cannot_be_meant_is_refused(admin: str, said: str) -> None:
    assert said in "\n".join(problems(admin))


def test_several_relays_have_one_admin_api() -> None:
    relay = "orders: {source: {dsn: postgresql://localhost/shop}, sink: {kind: memory}, admin: {anonymous: admin}}"
    (problem,) = problems_of(lambda: parse_relays(f"defaults: {{}}\nrelays: {{{relay}}}\n", "x", {}))
    assert "`admin` is the process's: write it under `defaults`" in problem
