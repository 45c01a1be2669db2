"""A schema registry: a fake with Confluent's API, as cruel as the real thing, and Apicurio Registry, which is real."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.servers.kafka_jars import POM, cache, java_major
from tests.servers.ports import free_port

VERSION = "3.3.3"
_JAVA_AT_LEAST = 21


class FakeRegistry:
    """Confluent's API over HTTP. `answers`: what it says instead of the truth, as (status, body); `hangs`: nothing.

    It gives the schema as it was registered, whatever the format that is asked for, so a Protobuf schema has to be
    registered in serialized form.
    """

    def __init__(self, port: int = 0) -> None:
        self.subjects: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[str] = []
        self.answers: tuple[int, bytes] | None = None
        self.hangs = threading.Event()
        self._released = threading.Event()
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            do_GET = do_POST = lambda self: fake._answer(self)  # noqa: N815

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        """The id. The same schema has the same id, in whatever subject."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": [*references]}
        with self._lock:
            versions = self.subjects.setdefault(subject, [])
            every = [each for some in self.subjects.values() for each in some]
            same = next((each["id"] for each in every if _content(each) == _content(body)), None)
            number = same or 1 + max((each["id"] for each in every), default=0)
            if not any(_content(each) == _content(body) for each in versions):
                versions.append({**body, "subject": subject, "version": len(versions) + 1, "id": number})
            return int(number)

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        self.asked.append(f"{request.command} {request.path}")
        if self.hangs.is_set():
            self._released.wait()
            return
        status, answer = self.answers or self._truth(request.command, request.path, body)
        request.send_response(status)
        request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        request.wfile.write(answer)

    def _truth(self, method: str, target: str, body: bytes) -> tuple[int, bytes]:
        steps = [unquote(step) for step in urlsplit(target).path.strip("/").split("/")]
        match method, *steps:
            case "GET", "subjects":
                return 200, json.dumps([*self.subjects]).encode()
            case "GET", "schemas", "ids", id_:
                found = next((e for v in self.subjects.values() for e in v if str(e["id"]) == id_), None)
                return (200, json.dumps(found).encode()) if found else _error(404, 40403, "Schema not found")
            case "GET", "subjects", subject, "versions", version:
                versions = self.subjects.get(subject)
                if not versions:
                    return _error(404, 40401, f"Subject '{subject}' not found.")
                wanted = versions[-1:] if version == "latest" else versions[int(version) - 1 : int(version)]
                return (200, json.dumps(wanted[0]).encode()) if wanted else _error(404, 40402, "Version not found.")
            case "POST", "subjects", subject:
                asked = json.loads(body)
                for each in self.subjects.get(subject, ()):
                    if _content(each) == _content(asked):
                        return 200, json.dumps(each).encode()
                return _error(
                    404, *((40403, "Schema not found") if self.subjects.get(subject) else (40401, "No subject"))
                )
            case "POST", "subjects", subject, "versions":
                asked = json.loads(body)
                if subject in self.subjects and b"incompatible" in body:
                    return _error(409, 409, "Schema being registered is incompatible with an earlier schema")
                number = self.register(
                    subject, asked["schema"], asked.get("schemaType", "AVRO"), asked.get("references", ())
                )
                return 200, json.dumps({"id": number}).encode()
        return 404, b"<html>not here</html>"


def _content(schema: Any) -> Any:
    return schema["schema"], schema.get("schemaType", "AVRO"), [*(schema.get("references") or ())]


def _error(status: int, code: int, message: str) -> tuple[int, bytes]:
    return status, json.dumps({"error_code": code, "message": message}).encode()


def apicurio() -> Iterator[str]:
    """The address of Confluent's API of Apicurio Registry, in memory. It needs Java 21, and Maven once."""
    java = next((path for path in _javas() if java_major(path) >= _JAVA_AT_LEAST), None)
    maven = shutil.which("mvn")
    home = cache(os.environ) / f"apicurio-registry-{VERSION}"
    if java is None or (maven is None and not home.is_dir()):
        pytest.skip(f"no Apicurio Registry: it needs Java {_JAVA_AT_LEAST} and Maven")
    if not home.is_dir():
        _fetch(home)
    port = free_port()
    options = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.management.enabled=false"]
    with tempfile.TemporaryFile() as log:
        command = [str(java), "-Xmx256m", "-XX:+UseSerialGC", *options, "-jar", str(home / "quarkus-run.jar")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 120
            while f"Listening on: http://127.0.0.1:{port}".encode() not in _content_of(log):
                assert process.poll() is None, _content_of(log).decode()
                assert time.monotonic() < deadline, _content_of(log).decode()
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/apis/ccompat/v7"
        finally:
            process.kill()
            process.wait()


def _javas() -> Iterator[Path]:
    found = shutil.which("java")
    yield from [Path(found)] if found else []
    yield from Path("/usr/lib/jvm").glob("*/bin/java")


def _content_of(log: Any) -> bytes:
    log.seek(0)
    return bytes(log.read())


def _fetch(home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as directory:
        artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
        command = ["mvn", "--batch-mode", "--quiet", "--file", str(POM), "dependency:copy", f"-Dartifact={artifact}"]
        subprocess.run([*command, f"-DoutputDirectory={directory}"], stdin=subprocess.DEVNULL, check=True)
        (archive,) = Path(directory).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(Path(directory) / "all", filter="data")
        (Path(directory) / "all").rename(home)
