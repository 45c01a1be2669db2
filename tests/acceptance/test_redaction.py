"""A word that stands where rules redact or do not select is in the table of dead letters, and in no other output."""

import json
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, header
from tests.servers.database import Database
from tests.servers.topics import Kafka

WORD = "Kanarienvogel"
ROUTES: list[dict[str, Any]] = [
    {
        "name": "listed",
        "when": {"payload.kind": "listed"},
        "payload": {"redact": ["card.number"]},
        "key": "{payload.customer}",
    },
    {
        "name": "selected",
        "when": {"payload.kind": "selected"},
        "payload": {"select": "public"},
        "key": "{payload.customer}",
    },
    {
        "name": "enveloped",
        "when": {"payload.kind": "enveloped"},
        "payload": {"redact": ["card.number"]},
        "envelope": {"kind": "cloudevents", "source": "/x", "attributes": {"dataschema": "{payload.customer}"}},
    },
    {"name": "numbered", "when": {"payload.card.number": "none"}, "drop": True},
]
COMMANDS = (
    ("status", "--json"),
    ("doctor", "--json"),
    ("dlq", "list"),
    ("dlq", "list", "--json"),
    ("dlq", "replay", "--dry-run"),
    ("find", "--since", "1h", "--json"),
    ("events", "--json"),
    ("route", "test", "--rows", "50"),
    ("route", "test", "--rows", "50", "--json"),
)


def write(deployment: Deployment) -> None:
    card = {"number": WORD}
    payloads: list[Any] = [
        {"kind": "listed", "customer": "1", "card": card},
        {"kind": "listed", "card": card},  # no key
        {"kind": "listed", "customer": "1", "card": card, "note": "x" * 2_000_000},  # too large for the broker
        {"kind": "selected", "customer": "2", "public": {"n": 1}, "card": card},
        {"kind": "selected", "public": {"n": 1}, "card": card},  # no key
        {"kind": "selected", "customer": "2", "card": card},  # nothing to select
        {"kind": "enveloped", "customer": "not a URI", "card": card},
        {"kind": "unknown", "card": card},  # no rule
    ]
    texts = [
        *map(json.dumps, payloads),
        f'{{"kind": "listed", "n": {"[" * 600}{"]" * 600}, "card": {{"number": "{WORD}"}}}}',
    ]
    for text in texts:
        deployment.database.execute("SELECT walrelay.emit('thing', 'k', 'Happened', %s::jsonb)", [text])
    deployment.database.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [f'{{"card": "{WORD}"}}'])


@pytest.mark.parametrize(
    "selects", [pytest.param(True, marks=pytest.mark.slow), False], ids=["redact and select", "redact"]
)
def test_what_rules_withhold_is_in_the_table_of_dead_letters_alone(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, tmp_path: Path, selects: bool
) -> None:
    dead = kafka.create_topic()
    deployment = deploy(
        database,
        kafka,
        topic,
        outbox={"messages": {"prefix": "walrelay"}, "max_message_bytes": 2**30},
        routes=[rule for rule in ROUTES if selects or rule["name"] != "selected"],
        refusals={"policy": "dead_letter", "dead_letters": "both", "dead_letter_topic": dead},
        events={"payloads": True},
        http={"listen": "127.0.0.1:0"},
        log={"format": "json", "level": "debug"},
    )
    relay = deployment.start()
    write(deployment)
    deployment.catch_up()
    port = relay.wait_for("listening")["port"]
    outputs = {" ".join(each): deployment.command(*each, exit_code=None) for each in COMMANDS}
    for path in ("metrics", "healthz"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20) as answer:
            outputs[path] = answer.read().decode()
    archive, log = tmp_path / "report.tar.gz", tmp_path / "relay.log"
    log.write_text("".join(f"{json.dumps(each)}\n" for each in relay.log))
    outputs["report"] = deployment.command("report", "--log", str(log), "--output", str(archive))
    with tarfile.open(archive) as opened:
        outputs |= {each.name: opened.extractfile(each).read().decode() for each in opened}  # type: ignore[union-attr]
    relay.stop()
    outputs["log"] = "".join(map(json.dumps, relay.log)) + "".join(relay.not_json)
    published, letters = kafka.read_all(topic), kafka.read_all(dead)
    outputs["topics"] = str([*published, *letters])

    whole = [json.loads(line) for line in deployment.command("dlq", "export").splitlines()]
    assert len(whole) == len(letters) == (8 if selects else 9)
    assert all(WORD in json.dumps(each["record"] or each["raw"]) for each in whole)
    assert [name for name, text in outputs.items() if WORD in text] == []
    values = [each.value for each in letters if header(each, "dead_letter_error") == "unroutable"]
    if selects:
        assert values == [None] * 6
    else:  # all that no rule withholds is there
        assert [json.loads(value)["kind"] for value in values if value] == [
            *("listed", "selected", "selected", "selected", "enveloped", "unknown")
        ]
        assert all(json.loads(value)["card"] == {"number": None} for value in values if value)
