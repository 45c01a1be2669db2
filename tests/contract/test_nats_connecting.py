"""How the NATS sink gets in: each kind of credential, TLS with certificates, and what it says where it does not."""

import base64
import hashlib
import json
import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic, time
from typing import Any

import nkeys
import pytest

from tests.brokers.nats import request
from tests.servers.certificates import Authority
from tests.servers.nats import NatsServer
from tests.servers.ports import LOOPBACK
from walrelay.errors import Fatal, Retryable, WalrelayError
from walrelay.model import Message
from walrelay.publish import Sink
from walrelay.sinks.nats.plugin import plugin
from walrelay.testing import complains

NatsMaker = Callable[..., NatsServer]
ANY = Message("s", b"a", b"1", [("id", b"1"), ("position", b"0/1:0")], 0)


def opened(**settings: Any) -> Sink:
    return plugin.open(plugin.settings.model_validate(settings), plugin.memory())


def lets_in(**settings: Any) -> None:
    """A message is refused for want of a stream, which only a user hears who was let in."""
    with closing(opened(**settings)) as sink:
        assert sink.publish(ANY, 0)
        deadline = monotonic() + 30
        while not (heard := list(sink.receipts(0.05))):
            assert monotonic() < deadline
        assert [getattr(each, "error", None) for each in heard] == ["unknown_topic"], heard


def keeps_out(kind: type[WalrelayError] = Retryable, **settings: Any) -> str:
    """Why the sink does not get in: what it says while it tries again, or the error that it ends in."""
    with closing(opened(**settings)) as sink:
        if kind is Retryable:
            return complains(sink).rpartition(" (")[0]
        deadline = monotonic() + 30
        while monotonic() < deadline:
            try:
                list(sink.receipts(0.05))
            except kind as why:
                return str(why)
    raise AssertionError("let in")


def test_a_user_and_password_of_the_url_may_have_any_characters(private_nats: NatsMaker) -> None:
    server = private_nats('authorization { user: "the relay", password: "p@ss/w:rd" }')
    lets_in(url=server.url.replace("//", "//the%20relay:p%40ss%2Fw%3Ard@"))
    lets_in(url=f"nats://localhost:1, {server.url.replace('//', '//the%20relay:p%40ss%2Fw%3Ard@')}")
    said = keeps_out(url=server.url.replace("//", "//the%20relay:wrong@"))
    assert said == "NATS cannot be reached: Authorization Violation"


def test_a_token(private_nats: NatsMaker) -> None:
    server = private_nats("authorization { token: secret }")
    lets_in(url=server.url.replace("//", "//secret@"))
    assert keeps_out(url=server.url) == "NATS cannot be reached: Authorization Violation"


def test_an_nkey(private_nats: NatsMaker, tmp_path: Path) -> None:
    pair, seed = key(nkeys.PREFIX_BYTE_USER)
    server = private_nats(f"authorization {{ users: [{{ nkey: {pair.public_key.decode()} }}] }}")
    file = tmp_path / "user.nk"
    file.write_bytes(seed + b"\n")
    lets_in(url=server.url, nkey_file=str(file))
    file.write_bytes(key(nkeys.PREFIX_BYTE_USER)[1])
    assert keeps_out(url=server.url, nkey_file=str(file)) == "NATS cannot be reached: Authorization Violation"


def test_a_credentials_file(private_nats: NatsMaker, tmp_path: Path) -> None:
    operator, (user, seed) = key(nkeys.PREFIX_BYTE_OPERATOR)[0], key(nkeys.PREFIX_BYTE_USER)
    system, account = key(nkeys.PREFIX_BYTE_ACCOUNT)[0], key(nkeys.PREFIX_BYTE_ACCOUNT)[0]
    of_streams = "mem_storage", "disk_storage", "streams", "consumer"
    no_streams: dict[str, Any] = dict.fromkeys(("subs", "conn", "leaf", "imports", "exports", "data", "payload"), -1)
    no_streams["wildcards"] = True
    unlimited = no_streams | dict.fromkeys(of_streams, -1)
    accounts = {
        each.public_key.decode(): jwt(operator, each, {"type": "account", "limits": limits})
        for each, limits in ((system, no_streams), (account, unlimited))
    }
    server = private_nats(
        f"operator: {jwt(operator, operator, {'type': 'operator'})}\nresolver: MEMORY\n"
        f"system_account: {system.public_key.decode()}\n"
        f"resolver_preload: {{ {', '.join(map(': '.join, accounts.items()))} }}"
    )
    user_jwt = jwt(account, user, {"type": "user", "subs": -1, "data": -1, "payload": -1})
    file = tmp_path / "relay.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed.decode()}\n------END USER NKEY SEED------\n"
    )
    lets_in(url=server.url, credentials_file=str(file))


@pytest.mark.parametrize("setting", ["credentials_file", "nkey_file"])
@pytest.mark.parametrize("content", [None, "", "nonsense\n", "-----BEGIN NATS USER JWT-----\n"])
def test_a_file_without_credentials_is_told(
    nats: NatsServer, tmp_path: Path, setting: str, content: str | None
) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    said = keeps_out(Fatal, url=nats.url, **{setting: str(file)})
    assert said.startswith(f"the credentials for NATS in {file} cannot be read: ")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("certificates"))
    for name in ("server", "relay"):
        made.sign(name)
    return made


@pytest.fixture
def encrypted(private_nats: NatsMaker, authority: Authority) -> NatsServer:
    """Its only users are those with a certificate for relay@localhost."""
    files = authority.directory
    return private_nats(
        f'tls {{ cert_file: "{files}/server.crt", key_file: "{files}/server.key", ca_file: "{files}/ca.crt",'
        " verify_and_map: true }\nauthorization { users: [{ user: relay@localhost }] }"
    )


def test_tls_with_a_certificate_of_the_relay(encrypted: NatsServer, authority: Authority) -> None:
    files = authority.directory
    own: dict[str, Any] = {"certificate_file": str(files / "relay.crt"), "key_file": str(files / "relay.key")}
    for url in (encrypted.url, encrypted.url.replace("nats://", "tls://")):
        lets_in(url=url, ca_file=str(files / "ca.crt"), **own)
    assert keeps_out(url=encrypted.url, **own).startswith("NATS cannot be reached: ")  # not of the system's authorities
    assert keeps_out(url=encrypted.url, ca_file=str(files / "ca.crt"))
    said = keeps_out(Fatal, url=encrypted.url, ca_file=str(files / "none.crt"))
    assert said.startswith("the certificates for NATS cannot be read")


def test_nothing_secret_is_sent_to_a_server_without_tls_where_the_url_asks_for_it(private_nats: NatsMaker) -> None:
    server = private_nats("authorization { user: u, password: secret }")
    said = keeps_out(Fatal, url=server.url.replace("nats://", "tls://u:secret@"))
    assert said == "sink.url asks for TLS, and the NATS server offers none: nothing was sent to it"


def test_a_server_that_is_away_is_told(nats: NatsServer) -> None:
    assert "Connect call failed" in keeps_out(url="nats://127.0.0.1:1")
    with closing(opened(url="nats://127.0.0.1:1")) as sink:
        assert sink.trouble().startswith("not connected to NATS at ")


def findings(server: NatsServer, *topics: str, **settings: Any) -> list[tuple[str, str]]:
    made = plugin.settings.model_validate({"url": server.url, **settings})
    return [(each.verdict, each.detail) for each in plugin.examine(made, topics)]


def test_the_doctor_looks_at_streams(private_nats: NatsMaker) -> None:
    server = private_nats("")
    assert findings(server, "orders")[1:] == [("problem", "no stream has the subject 'orders'")]
    make = plugin.make_topics
    assert make is not None
    wanted = plugin.settings(url=server.url, stream="events")
    assert findings(server, "orders", stream="events")[1:] == [
        ("problem", "no stream has the subject 'orders'"),
        ("problem", "stream 'events' does not exist"),
    ]
    assert list(make(wanted, ["orders"], 1, None)) == [("orders", True)]
    assert list(make(wanted, ["orders", "bills"], 1, None)) == [("orders", False), ("bills", True)]
    config = request(server.url, "STREAM.INFO.events")["config"]
    assert (config["subjects"], config["storage"], config["num_replicas"]) == (["orders", "bills"], "file", 1)
    once = "stream 'events' has one replica, and NATS acknowledges before a message is on disk"
    (connected, _), *rest = findings(server, "orders", "part-*", stream="events", ordering="pipelined")
    assert connected == "ok"
    assert rest == [
        ("ok", "stream 'events' has the subject 'orders'"),
        ("warning", once),
        ("warning", "sink.ordering is pipelined: a message that NATS loses is overtaken by later ones"),
    ]
    worst: dict[str, Any] = {"storage": "memory", "no_ack": True, "retention": "interest"}
    request(server.url, "STREAM.CREATE.x", name="x", subjects=["x"], **worst)
    assert findings(server, "x")[2:] == [
        ("problem", "stream 'x' acknowledges nothing (no_ack)"),
        ("warning", "stream 'x' keeps its messages in memory"),
        ("warning", "stream 'x' throws away what comes while it has no consumer (retention: interest)"),
    ]
    assert findings(server, "x", stream="events")[1] == ("problem", "subject 'x' is in stream 'x', not in 'events'")
    with pytest.raises(Fatal, match="subjects overlap"):
        list(make(wanted, ["x"], 1, None))
    with pytest.raises(Fatal, match=r"sink\.stream does not say which stream is to have the subjects"):
        list(make(plugin.settings(url=server.url), ["orders"], 1, None))
    server.kill()
    ((verdict, detail),) = findings(server, "orders")
    assert verdict == "problem"
    assert detail.startswith("NATS cannot be reached: ")


def test_the_doctor_says_how_to_make_what_is_missing_and_init_makes_it(private_nats: NatsMaker) -> None:
    server = private_nats("")
    settings = plugin.settings(url=server.url, stream="events")
    _, subject, stream = plugin.examine(settings, ["outbox.event.*"])
    assert subject.detail == "no stream has the subject 'outbox.event.*'"
    assert subject.fix == "walrelay init --topics 'outbox.event.*'\n# or nats stream edit events --subjects ..."
    assert stream.fix == "walrelay init --topics 'outbox.event.*'\n# or nats stream add events"
    assert plugin.make_topics is not None
    assert list(plugin.make_topics(settings, ["outbox.event.*"], 1, None)) == [("outbox.event.*", True)]
    assert list(plugin.make_topics(settings, ["outbox.event.*"], 1, None)) == [("outbox.event.*", False)]
    assert findings(server, "outbox.event.*", stream="events")[1] == (
        "ok",
        "stream 'events' has the subject 'outbox.event.*'",
    )
    assert findings(server, "outbox.event.order", stream="events")[1][0] == "ok"


def test_the_doctor_and_init_over_tls(encrypted: NatsServer, authority: Authority) -> None:
    files = authority.directory
    own = {"certificate_file": str(files / "relay.crt"), "key_file": str(files / "relay.key")}
    tls = {"url": encrypted.url.replace("nats://", "tls://"), "ca_file": str(files / "ca.crt"), **own}
    settings = plugin.settings.model_validate({**tls, "stream": "events"})
    assert plugin.make_topics is not None
    assert list(plugin.make_topics(settings, ["orders"], 1, None)) == [("orders", True)]
    assert findings(encrypted, "orders", **tls)[1] == ("ok", "stream 'events' has the subject 'orders'")
    assert findings(encrypted, "orders")[0][0] == "problem"


def test_the_doctor_finds_an_account_without_jetstream(private_nats: NatsMaker) -> None:
    server = private_nats("accounts { A { users: [{ user: u, password: p }] }, B { jetstream: enabled } }")
    url = server.url.replace("//", "//u:p@")
    _, (verdict, detail) = findings(server, "orders", url=url)
    assert verdict == "problem"
    assert "orders" in detail
    assert "JetStream" in detail
    settings = plugin.settings(url=url, stream="events")
    assert plugin.make_topics is not None
    with pytest.raises(Fatal, match=r"stream 'events' was not made: .*[Jj]et[Ss]tream"):
        list(plugin.make_topics(settings, ["orders"], 1, None))


def key(prefix: int) -> tuple[nkeys.KeyPair, bytes]:
    seed = nkeys.encode_seed(os.urandom(32), prefix)
    return nkeys.from_seed(bytearray(seed)), bytes(seed)


def jwt(issuer: nkeys.KeyPair, subject: nkeys.KeyPair, claims: dict[str, Any]) -> str:
    """As `nsc` makes them."""
    body = {
        "iat": int(time()),
        "iss": issuer.public_key.decode(),
        "sub": subject.public_key.decode(),
        "name": "test",
        "nats": {"version": 2, **claims},
    }
    body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode().rstrip("=")
    signed = ".".join(encoded(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body))
    return f"{signed}.{encoded(issuer.sign(signed.encode()))}"


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def test_a_silent_server_is_named_with_the_time_that_it_had() -> None:
    silent = socket.create_server((LOOPBACK, 0))
    url = f"nats://{LOOPBACK}:{silent.getsockname()[1]}"
    with silent, closing(opened(url=url, request_timeout=1)) as sink:
        complains(sink, "NATS cannot be reached: no answer within 0.5 s")
