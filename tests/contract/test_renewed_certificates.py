"""Certificates that are renewed on disk: every sink shows the new one to its broker, and no process is restarted."""

import json
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Self

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.servers.certificates import Authority
from tests.servers.ports import LOOPBACK
from tests.servers.waiting import wait_until
from walrelay.errors import Retryable
from walrelay.model import Message
from walrelay.publish import load
from walrelay.route.rules.schemas import SchemaRequest
from walrelay.schemas.registry import SchemaRegistry

_INFO = {"server_id": "a", "version": "2.9.10", "max_payload": 1_000_000, "tls_required": True, "headers": True}


class Doorkeeper:
    """A server that asks for a certificate, and says no more to those who show one that `authority` has signed. `says`:
    what it says before TLS.
    """

    def __init__(self, authority: Authority, says: bytes = b"") -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*authority.sign("server"))
        self._context.load_verify_locations(authority.certificate)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.set_alpn_protocols(["h2", "http/1.1"])
        self.let_in = self.refused = 0
        self._says = says
        self._listener = socket.create_server((LOOPBACK, 0), backlog=100)
        self.port: int = self._listener.getsockname()[1]
        self._thread = Thread(target=self._accept)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.settimeout(5)
                    connection.sendall(self._says)
                    self._context.wrap_socket(connection, server_side=True).close()
                    self.let_in += 1
                except OSError:
                    self.refused += 1


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "trusted").mkdir()
    return Authority(tmp_path / "trusted")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    (tmp_path / "stranger").mkdir()
    return Authority(tmp_path / "stranger")


@pytest.fixture
def renewed(tmp_path: Path, authority: Authority, stranger: Authority) -> Callable[[], None]:
    """The relay's certificate is a stranger's, until this is called."""
    files = tmp_path / "relay.crt", tmp_path / "relay.key"

    def put(signed: tuple[Path, Path]) -> None:
        for source, target in zip(signed, files, strict=True):
            other = tmp_path / "other"
            other.write_bytes(source.read_bytes())
            other.replace(target)

    put(stranger.sign("relay"))
    return lambda: put(authority.sign("relay"))


def _account(directory: Path) -> Path:
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made = {"type": "service_account", "project_id": "tests", "private_key_id": "1", "private_key": key.decode()}
    made |= {"client_email": "a@tests.iam.gserviceaccount.com", "token_uri": "http://127.0.0.1:9/never-asked"}
    (directory / "account.json").write_text(json.dumps(made))
    return directory / "account.json"


def settings_of(kind: str, port: int, directory: Path) -> dict[str, Any]:
    own = {
        "ca_file": str(directory / "trusted" / "ca.crt"),
        "certificate_file": str(directory / "relay.crt"),
        "key_file": str(directory / "relay.key"),
    }
    match kind:
        case "kafka":
            names = {"ca_file": "ssl.ca.location", "certificate_file": "ssl.certificate.location"}
            options = {names.get(name, "ssl.key.location"): file for name, file in own.items()}
            options |= {"security.protocol": "ssl", "reconnect.backoff.max.ms": "200"}
            return {"bootstrap_servers": f"localhost:{port}", "options": options}
        case "pubsub":
            place = {"project": "tests", "endpoint": f"https://localhost:{port}"}
            return {**place, **own, "credentials_file": str(_account(directory))}
        case "webhook":
            return {"url": f"https://localhost:{port}/hook", "allow_private_addresses": True, **own}
        case "rabbitmq":
            return {"url": f"amqps://localhost:{port}", **own}
        case "nats":
            return {"url": f"tls://localhost:{port}", **own}
        case "redis":
            return {"url": f"rediss://localhost:{port}", **own}
        case _:
            return {"url": f"{kind}+ssl://localhost:{port}", **own}


@pytest.mark.parametrize("kind", ["kafka", "nats", "pubsub", "pulsar", "rabbitmq", "redis", "webhook"])
def test_a_renewed_certificate_is_shown_without_another_process(
    kind: str, authority: Authority, renewed: Callable[[], None], tmp_path: Path
) -> None:
    plugin = load(kind)
    with Doorkeeper(authority, f"INFO {json.dumps(_INFO)}\r\n".encode() if kind == "nats" else b"") as door:
        settings = plugin.settings.model_validate(settings_of(kind, door.port, tmp_path))
        memory = plugin.memory()
        sink = plugin.open(settings, memory)

        def lives(until: str) -> bool:
            """The relay opens a sink that has ended again."""
            nonlocal sink
            sink.publish(Message("orders", b"k", b"{}", [("id", b"1"), ("position", b"0/1:0")], 0), 0)
            try:
                list(sink.receipts(0.05))
            except Retryable:
                sink.close()
                sink = plugin.open(settings, memory)
            return bool(getattr(door, until))

        try:
            wait_until(lambda: lives("refused"), 60, "the old certificate to be refused")
            assert door.let_in == 0
            renewed()
            wait_until(lambda: lives("let_in"), 60, "the new certificate to be shown")
        finally:
            sink.close()


def test_the_schema_registry_gets_a_renewed_certificate(
    authority: Authority, renewed: Callable[[], None], tmp_path: Path
) -> None:
    own = settings_of("kafka", 1, tmp_path)["options"]
    options = {name: file for name, file in own.items() if name.endswith(".location")}
    with Doorkeeper(authority) as door:
        registry = SchemaRegistry({"url": f"https://localhost:{door.port}", **options})
        wanted = SchemaRequest("avro", "orders-value", "latest", None, None, None)

        def asked() -> None:
            with suppress(Exception):
                registry.encoded(wanted, b"{}")

        asked()
        assert (door.let_in, door.refused) == (0, 1)
        (tmp_path / "relay.key").write_text("half of a key")
        asked()
        assert door.let_in == 0
        renewed()
        asked()
        assert door.let_in == 1
