"""How the Pub/Sub sink gets in: credentials, TLS with certificates, and what it says where it does not. On a fake."""

import json
import os
from base64 import urlsafe_b64decode
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.brokers.pubsub import PROJECT, findings, numbered, opened
from tests.contract.hearing import complaint, pumped_until
from tests.servers.certificates import Authority
from tests.servers.pubsub_answers import PubsubAnswers
from tests.servers.webhook import Endpoint, response
from walrelay.errors import Fatal
from walrelay.testing import complains, failure, settle


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("certificates"))
    for name in ("server", "relay"):
        made.sign(name)
    return made


@pytest.fixture(scope="module")
def service_account(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key file as Google gives them; it signs its tokens itself."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path_factory.mktemp("account") / "key.json"
    made = {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "1",
        "private_key": key.decode(),
        "client_email": "relay@walrelay-tests.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "http://127.0.0.1:9/never-asked",
    }
    file.write_text(json.dumps(made))
    return file


def encrypted(authority: Authority, *, of_clients: bool = False) -> PubsubAnswers:
    files = authority.directory
    pair = ((files / "server.key").read_bytes(), (files / "server.crt").read_bytes())
    return PubsubAnswers(
        credentials=grpc.ssl_server_credentials(
            [pair], authority.certificate.read_bytes() if of_clients else None, of_clients
        )
    )


def lets_in(server: PubsubAnswers, **settings: Any) -> dict[str, str]:
    """The metadata that came with a message."""
    with closing(opened(endpoint=f"localhost:{server.port}", **settings)) as sink:
        assert sink.publish(numbered(0), 0)
        settle(sink, 1)
    return server.metadata[-1]


def is_kept_out(server: PubsubAnswers, **settings: Any) -> None:
    with closing(opened(endpoint=f"localhost:{server.port}", **settings)) as sink:
        assert sink.publish(numbered(0), 0)
        pumped_until(sink, lambda: "UNAVAILABLE" in sink.trouble(), "a complaint")


def claims(metadata: dict[str, str]) -> dict[str, Any]:
    scheme, token = metadata["authorization"].split(" ")
    assert scheme == "Bearer"
    body = token.split(".")[1]
    found: dict[str, Any] = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def test_a_service_account_s_key_over_tls_with_an_authority_of_one_s_own(
    authority: Authority, service_account: Path
) -> None:
    own: dict[str, Any] = {"ca_file": str(authority.certificate), "credentials_file": str(service_account)}
    with encrypted(authority) as server:
        found = claims(lets_in(server, **own))
        assert found["iss"] == "relay@walrelay-tests.iam.gserviceaccount.com"
        assert found["scope"] == "https://www.googleapis.com/auth/pubsub"
        is_kept_out(server, credentials_file=str(service_account))


def test_application_default_credentials(
    authority: Authority, service_account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account))
    with encrypted(authority) as server:
        assert claims(lets_in(server, ca_file=str(authority.certificate)))["iss"].startswith("relay@")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account.with_name("none.json")))
    with closing(opened(endpoint="localhost:1")) as sink:
        complains(sink, "there are no default credentials for Pub/Sub: File ")


def test_the_machine_s_server_of_credentials(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Google's machines: a token for an hour from the metadata server, asked for once."""
    token = json.dumps({"access_token": "of-the-machine", "expires_in": 3600, "token_type": "Bearer"})
    account = json.dumps({"email": "relay@example.com", "scopes": [], "aliases": []})

    def behave(conversation: Any) -> None:
        while True:
            path = conversation.request().path
            body = token if "token" in path else account if "recursive" in path else PROJECT
            conversation.say(response("200 OK", "Metadata-Flavor: Google", "Content-Type: application/json", body=body))

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with Endpoint(behave) as machine, encrypted(authority) as server:
        for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):
            monkeypatch.setenv(name, f"127.0.0.1:{machine.port}")
        monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", f"127.0.0.1:{machine.port}")
        found = lets_in(server, ca_file=str(authority.certificate))
    assert found["authorization"] == "Bearer of-the-machine"


@pytest.mark.parametrize(
    "content", [None, "", "{}", '{"type": "service_account"}', '{"type": "authorized_user"}', "nonsense"]
)
def test_a_file_without_credentials_is_told(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "key.json"
    if content is not None:
        file.write_text(content)
    with closing(opened(endpoint="localhost:1", credentials_file=str(file))) as sink:
        assert failure(sink, Fatal).startswith(f"the credentials for Pub/Sub in {file} cannot be read: ")


def test_credentials_that_never_come_are_not_waited_for_without_end(tmp_path: Path) -> None:
    """A file that cannot be read to its end, as of a file system that hangs."""
    file = tmp_path / "key.json"
    os.mkfifo(file)
    said = "the credentials for Pub/Sub have not come for 0.5 s: look at sink.credentials_file"
    with closing(opened(endpoint="localhost:1", credentials_file=str(file), request_timeout=0.5)) as sink:
        assert sink.publish(numbered(0), 0)
        complaint(sink, said)
    ((verdict, detail),) = findings("localhost:1", "orders", credentials_file=str(file), request_timeout=0.5)
    assert verdict == "problem"
    assert detail.startswith(said)
    os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))  # lets the threads end


def test_a_certificate_of_the_relay(authority: Authority, service_account: Path) -> None:
    files = authority.directory
    own: dict[str, Any] = {"ca_file": str(authority.certificate), "credentials_file": str(service_account)}
    pair: dict[str, Any] = {"certificate_file": str(files / "relay.crt"), "key_file": str(files / "relay.key")}
    both = files / "both.pem"
    both.write_bytes((files / "relay.key").read_bytes() + (files / "relay.crt").read_bytes())
    with encrypted(authority, of_clients=True) as server:
        lets_in(server, **own, **pair)
        lets_in(server, **own, certificate_file=str(both))
        is_kept_out(server, **own)
        with closing(opened(endpoint=f"localhost:{server.port}", ca_file=str(files / "none.crt"))) as sink:
            assert failure(sink, Fatal).startswith("the certificates for Pub/Sub cannot be read")


def test_an_emulator_of_the_environment_gets_no_credentials(
    monkeypatch: pytest.MonkeyPatch, service_account: Path
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account))
    with PubsubAnswers() as server:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
        with closing(opened()) as sink:
            assert sink.publish(numbered(0), 0)
            settle(sink, 1)
        assert "authorization" not in server.metadata[0]
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "a b")
    with closing(opened()) as sink:
        assert failure(sink, Fatal).startswith("PUBSUB_EMULATOR_HOST: 'http://a b' is no endpoint")


def test_the_doctor_says_why_pubsub_cannot_be_reached_or_asked(service_account: Path, authority: Authority) -> None:
    ((verdict, detail),) = findings("http://127.0.0.1:1", "orders")
    assert verdict == "problem"
    assert detail.startswith("Pub/Sub at 127.0.0.1:1 cannot be reached: ")
    ((verdict, detail),) = findings("localhost:1", "orders", credentials_file="/none.json")
    assert verdict == "problem"
    assert detail.startswith("the credentials for Pub/Sub in /none.json cannot be read: [Errno 2]")
    ((verdict, detail),) = findings("http://127.0.0.1:1", "a b")
    assert (verdict, detail[:29]) == ("problem", "'a b' is no topic of Pub/Sub:")
    with encrypted(authority) as server:
        own = {"ca_file": str(authority.certificate), "credentials_file": str(service_account)}
        first, second = findings(f"localhost:{server.port}", "orders", **own)
        assert first == ("ok", f"connected to Pub/Sub at localhost:{server.port} with TLS")
        assert second[0] == "warning"
        assert "cannot be asked about" in second[1]
