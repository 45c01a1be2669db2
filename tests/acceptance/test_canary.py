"""A word that stands in every payload, header, tenant and secret is in the broker, and in no other output."""

import json
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.servers.database import Database
from tests.servers.topics import Kafka
from walrelay.cli import main

WORD = "Kanarienvogel"
KEY = "Schluesselblume"  # may stand in logs, where pages say so, but not in numbers and not in what is sent to others
pytestmark = pytest.mark.slow

COMMANDS = (
    ("doctor",),
    ("doctor", "--json"),
    ("status",),
    ("status", "--json"),
    ("config", "check"),
    ("dlq", "list"),
    ("dlq", "list", "--json"),
    ("dlq", "replay", "--dry-run"),
    ("cleanup", "--older-than", "1s", "--dry-run"),
    ("audit",),
    ("find", "--since", "1h"),
    ("find", "--since", "1h", "--json"),
    ("replay", "--from", "1h", "--dry-run"),
    ("recover", "--dry-run"),
)


def secretive(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Deployment:
    deployment = deploy(
        database,
        kafka,
        topic,
        outbox={"messages": {"prefix": "walrelay"}, "max_message_bytes": 2**30},
        routes=[
            {"name": "listed", "when": {"payload.kind": "listed"}, "payload": {"redact": ["card.number"]}},
            {"name": "of-a-tenant", "when": {"tenant_id": {"prefix": "acme"}}, "topic": "{header.region}"},
        ],
        refusals={"policy": "dead_letter"},
        http={"listen": "127.0.0.1:0"},
        log={"format": "json", "level": "debug"},
    )
    # libpq sends no password to a server that asks for none.
    deployment.write_settings(
        source={"dsn": make_conninfo(database.dsn, password=f"{WORD}-dsn")},
        sink={"options": {"sasl.password": f"{WORD}-sasl", "ssl.key.password": f"{WORD}-tls"}},
    )
    return deployment


def write(deployment: Deployment) -> None:
    """An event that is published, and those that are refused in every way there is."""
    too_large = WORD * 100_000
    rows = [
        ({"kind": "listed", "card": {"number": 1}, "note": WORD}, None),
        ({"kind": "listed", "note": too_large}, None),
        ({"kind": WORD}, None),
        ({"kind": "other", "note": WORD}, f"acme-{WORD}"),
    ]
    for payload, tenant in rows:
        deployment.database.execute(
            "SELECT walrelay.emit('thing', %s, 'Happened', %s::jsonb, headers => %s::jsonb, tenant_id => %s)",
            [KEY, json.dumps(payload), json.dumps({"note": WORD}), tenant],
        )
    for message in (WORD, json.dumps({"id": "1", "payload": {}, "type": [WORD]}), f'{{"id": "1", "payload": {WORD}}}'):
        deployment.database.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [message])


def said(deployment: Deployment, *arguments: str) -> str:
    """In this process, as that is faster."""
    return CliRunner().invoke(main, [*arguments, "--config", str(deployment.config)]).output


def asked(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20) as answer:
            return str(answer.read(), "utf-8")
    except urllib.error.HTTPError as error:
        return str(error.read(), "utf-8")


def log_of(relay: RelayProcess) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in relay.log) + "".join(relay.not_json)


def contents(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as opened:
        return {each.name: opened.extractfile(each).read().decode() for each in opened}  # type: ignore[union-attr]


def test_no_output_shows_a_payload_or_a_secret(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALRELAY_TRACEBACK", "1")
    deployment = secretive(deploy, database, kafka, topic)
    relay = deployment.start()
    write(deployment)
    deployment.catch_up()
    port = relay.wait_for("listening")["port"]
    deployment.write_settings(http={"listen": f"127.0.0.1:{port}"})
    outputs = {path: asked(port, path) for path in ("metrics", "healthz", "readyz", "startupz", "nothing")}
    errors = [each["error"] for each in map(json.loads, said(deployment, "dlq", "list", "--json").splitlines())]
    assert errors == ["too_large", "unroutable", "unroutable", *["undecodable"] * 3]

    outputs |= {" ".join(each): said(deployment, *each) for each in COMMANDS}
    log = tmp_path / "relay.log"
    log.write_text(
        log_of(relay) + f"a line that is no event: {WORD}\n" + json.dumps({"event": "message", "payload": WORD})
    )
    archive = tmp_path / "report.tar.gz"
    outputs["report"] = said(deployment, "report", "--log", str(log), "--output", str(archive))
    outputs |= contents(archive)
    relay.stop()
    outputs["log"] = log_of(relay)

    # Without the policy the same events end the relay, with a traceback.
    deployment.write_settings(refusals={"policy": "stop"})
    deployment.database.execute(
        "SELECT walrelay.emit('thing', 'b', 'Happened', %s::jsonb)", [json.dumps({"kind": WORD})]
    )
    ended = deployment.launch()
    assert ended.wait() == 1
    outputs["log of its end"] = log_of(ended)
    ended.not_json.clear()  # which no other relay may have
    assert "Traceback" in outputs["log of its end"]
    deployment.write_settings(source={"dsn": make_conninfo(database.dsn, password=f"{WORD}-dsn", port="1")})
    outputs["doctor without a server"] = said(deployment, "doctor")
    alone = tmp_path / "alone.tar.gz"
    said(deployment, "report", "--output", str(alone))
    assert "Connection refused" in contents(alone)["walrelay-report/database.json"]
    outputs |= {f"{name} without a server": text for name, text in contents(alone).items()}
    outputs["wrong settings"] = _wrong_settings(deployment)

    assert WORD in str([each.value for each in kafka.read_all(topic)])
    assert WORD in str([each.headers for each in kafka.read_all(topic)])
    assert [name for name, text in outputs.items() if WORD in text] == []
    numbers = {
        name: text
        for name, text in outputs.items()
        if not name.startswith(("log", "dlq", "find", "walrelay-report/events"))
    }
    assert [name for name, text in numbers.items() if KEY in text] == []


def _wrong_settings(deployment: Deployment) -> str:
    settings: dict[str, Any] = yaml.safe_load(deployment.config.read_text())
    settings["source"]["dsn"] = f"mysql://relay:{WORD}@db/shop"
    settings["sink"] |= {"options": {"sasl.password": [WORD]}, "url": f"amqp://relay:{WORD}@rabbit"}
    deployment.config.write_text(yaml.safe_dump(settings))
    return said(deployment, "config", "check") + said(deployment, "run") + said(deployment, "report")
