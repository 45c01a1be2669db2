"""The stream over TLS, whose library holds bytes that no poll sees."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.conftest import PostgresMaker
from tests.integration.relaying.harness import Outbox
from tests.servers.choose import Missing, give_up
from tests.servers.postgres import PostgresServer


def make_certificate(directory: Path, name: str) -> None:
    """For localhost, signed by itself; the key beside it."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    files = ["-keyout", f"{name}.key", "-out", f"{name}.crt"]
    subprocess.run([*command.split(), *files], cwd=directory, check=True, capture_output=True)


@pytest.fixture
def encrypted(private_postgres: PostgresMaker) -> PostgresServer:
    """A server that takes connections over TLS only, once its certificate is there."""
    if shutil.which("openssl") is None:
        give_up(Missing("openssl makes the certificate, and is not installed"))
    server = private_postgres()
    owner = server.data.stat()
    make_certificate(server.data, "server")
    for name in ("server.key", "server.crt"):
        os.chown(server.data / name, owner.st_uid, owner.st_gid)
    server.configure(ssl=True)
    return server


def test_a_stream_over_tls_waits_for_nothing_that_is_there(encrypted: PostgresServer, tmp_path: Path) -> None:
    certificate = shutil.copy(encrypted.data / "server.crt", tmp_path)
    database = encrypted.create_database()
    dsn = make_conninfo(database.dsn, host="localhost", sslmode="verify-full", sslrootcert=str(certificate))
    outbox = Outbox(database, "text", source={"dsn": dsn})
    outbox.init()
    (encrypted.data / "pg_hba.conf").write_text(
        "hostssl all all localhost trust\nhost all postgres 127.0.0.1/32 trust\n"
    )
    with outbox.relay() as relay, database.connect() as connection:
        relay.streams()
        pid = outbox.slot("active_pid")
        assert encrypted.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = %s", [pid]) == [(True,)]
        with connection.transaction():
            outbox.write(*range(5000), connection=connection)
        assert outbox.values(relay) == [b"%d" % number for number in range(5000)]


def test_a_certificate_that_is_not_the_servers_is_told(encrypted: PostgresServer, tmp_path: Path) -> None:
    database = encrypted.create_database()
    make_certificate(tmp_path, "other")
    dsn = make_conninfo(database.dsn, host="localhost", sslmode="verify-full", sslrootcert=str(tmp_path / "other.crt"))
    outbox = Outbox(database, "text", source={"dsn": dsn})
    with outbox.relay() as relay:
        relay.wait_until(lambda: outbox.watcher.retries, "the connection to be refused")
    assert "certificate verify failed" in outbox.watcher.retries[0]
