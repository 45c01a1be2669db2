"""The program of the version before, run from this repository's history, beside `walrelay init` of this version."""

import io
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.writing import Writers
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

ROOT = Path(__file__).parents[2]
BEFORE = "d07f6b5"
EMIT = "SELECT walrelay.emit('thing', 'own', 'Happened', %s)"
WAITS = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'virtualxid'"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Its source tree."""
    found = subprocess.run(["git", "-C", ROOT, "archive", BEFORE, "walrelay", "sql", "docs"], capture_output=True)
    if found.returncode:
        pytest.skip(f"no commit {BEFORE} here: {found.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(tmp_path / "before", filter="data")
    return tmp_path / "before"


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_relay_of_the_version_before_goes_on_after_init_and_either_takes_over_from_the_other(
    program: Path, monkeypatch: pytest.MonkeyPatch, deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    sections = {"position": {"keep": "table"}, "refusals": {"policy": "dead_letter"}}
    deployment = deploy(database, kafka, topic, **sections)
    database.empty()  # of what this version made
    monkeypatch.setenv("PYTHONPATH", str(program))
    deployment.command("init")
    assert database.execute("SELECT 1 FROM pg_attribute WHERE attname = 'parts'") == [], "made by the version before"
    then = deployment.start()
    with Writers(database, seed=6) as writers, database.connect(autocommit=False) as under_way:
        writers.wait_for_more(100)
        under_way.execute(EMIT, ['{"number": 1}'])
        monkeypatch.delenv("PYTHONPATH")
        with ThreadPoolExecutor(1) as pool:  # an index that is made concurrently waits for the transaction
            init = pool.submit(deployment.command, "init")
            wait_until(lambda: init.done() or database.execute(WAITS), 30, "init to wait for the transaction")
            under_way.execute(EMIT, ['{"number": 2}'])
            under_way.commit()
            assert "updated function walrelay.emit" in " ".join(init.result().split())
        writers.wait_for_more(100)
        assert then.running
        now = deployment.launch()
        now.wait_for("standing by", timeout=60)
        then.stop()
        now.wait_for("streaming", timeout=60)
        writers.wait_for_more(100)
        monkeypatch.setenv("PYTHONPATH", str(program))
        back = deployment.launch()
        back.wait_for("standing by", timeout=60)
        now.stop()
        back.wait_for("streaming", timeout=60)
        writers.wait_for_more(100)
    deployment.catch_up()
    back.stop()
    monkeypatch.delenv("PYTHONPATH")
    assert "--from-slot" in deployment.said("audit", exit_code=1), "the version before does not report where it stopped"
    accepted = deployment.launch("--from-slot")
    accepted.wait_for("streaming", timeout=60)
    deployment.catch_up()
    deployment.command("audit")
    assert_delivered(deployment)
