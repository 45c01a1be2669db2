"""No space: where the relay keeps its position, in the database, at the broker. What can wait does; nothing is lost."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_dead_letters import KEPT, first_deliveries, letters
from tests.acceptance.test_refusals import text_of
from tests.acceptance.writing import Writers
from tests.conftest import KafkaMaker, PostgresMaker
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.model import RelayPosition

FULL = Path("/dev/full")
"""The kernel's own answer for a disk without space, which takes no rights to make."""

# What the server says when it takes no writes, for the tables that the relay writes to.
TROUBLES = {
    "no space": ("disk_full", 'could not extend file "base/1/2": No space left on device'),
    "read only": ("read_only_sql_transaction", "cannot execute INSERT in a read-only transaction"),
}
NO_WRITES = """
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION '{text}' USING ERRCODE = '{state}';
    END $$;
    CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON walrelay.positions EXECUTE FUNCTION full_disk();
    CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON walrelay.dead_letters EXECUTE FUNCTION full_disk();
"""
SPACE = "DROP FUNCTION full_disk CASCADE"


def delivered(deployment: Deployment, *payloads: str) -> None:
    """Waits for that many events."""
    wait_until(lambda: len(deployment.delivered()) == len(payloads), 20, f"{len(payloads)} events")
    assert [message.value for message in deployment.delivered()] == [payload.encode() for payload in payloads]


def test_events_are_published_while_there_is_no_space_for_the_position(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    position = tmp_path / "position"
    beside = tmp_path / "position.new"
    deployment = deploy(database, kafka, topic, position={"keep": "file", "path": str(position)})
    relay = deployment.start()
    deployment.write("1")
    deployment.catch_up()
    beside.symlink_to(FULL)
    before = deployment.position()
    deployment.write("2", "3")
    notice = relay.wait_for("noticed", containing="cannot be written: No space left on device")
    assert str(position) in notice["text"]
    delivered(deployment, "1", "2", "3")
    assert deployment.slot.confirmed <= RelayPosition.of_json(position.read_bytes()).lsn <= before
    beside.unlink()
    relay.wait_for("noticed", containing="can be written again")
    deployment.catch_up()
    assert relay.events("retrying") == []
    assert assert_delivered(deployment).duplicates == 0


def test_a_relay_starts_and_leaves_while_there_is_no_space_for_the_position(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "position.new").symlink_to(FULL)
    deployment = deploy(database, kafka, topic, position={"keep": "file", "path": str(tmp_path / "position")})
    relay = deployment.start()
    deployment.write("1")
    delivered(deployment, "1")
    relay.stop()
    (tmp_path / "position.new").unlink()
    deployment.start()
    deployment.catch_up()
    assert assert_delivered(deployment).duplicates == 1, "what could not be confirmed comes again"


def test_a_position_file_that_may_not_be_written_stops_the_relay_and_says_where(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    """Waiting does not cure it."""
    position = tmp_path / "on a disk" / "position"
    position.parent.mkdir()
    deployment = deploy(database, kafka, topic, position={"keep": "file", "path": str(position)})
    relay = deployment.start()
    position.parent.rename(tmp_path / "elsewhere")
    deployment.write("1")
    assert relay.wait() == 1
    (fatal,) = relay.events("fatal")
    assert fatal["error"] == f"the position file {position} cannot be written: No such file or directory"
    assert "a directory that walrelay may write to" in fatal["hint"]


@pytest.mark.parametrize(
    ("trouble", "writes"),
    [("no space", "position"), ("no space", "letter"), ("read only", "position"), ("read only", "letter")],
)
def test_a_database_that_takes_no_writes_is_waited_for(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, trouble: str, writes: str
) -> None:
    """Its disk is full; or so nearly that whoever runs the server has it take no writes."""
    deployment = deploy(
        database, kafka, topic, **({"position": {"keep": "table"}} if writes == "position" else {"refusals": KEPT})
    )
    poisonous = text_of(1_200_000) if writes == "letter" else "0"
    before, poison, after = deployment.write("1", poisonous, "2")
    state, text = TROUBLES[trouble]
    database.execute(NO_WRITES.format(state=state, text=text))
    relay = deployment.launch()
    relay.wait_for("retrying", containing=text.rpartition(": ")[2])
    database.execute(SPACE)
    deployment.catch_up()
    assert relay.running
    assert first_deliveries(deployment) == ([before, after] if writes == "letter" else [before, poison, after])
    assert [letter["id"] for letter in letters(deployment)] == ([poison] if writes == "letter" else [])


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system with room for one server and little more."""
    disk = Path(tempfile.mkdtemp(prefix="walrelay-disk-"))
    disk.chmod(0o755)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=755", "tmpfs", disk], capture_output=True)
    try:
        if mounted.returncode != 0:
            pytest.skip(f"only root may mount a small file system: {mounted.stderr.decode().strip()}")
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], capture_output=True)
        disk.rmdir()


@contextmanager
def made_on(disk: Path) -> Iterator[None]:
    """Servers that are made inside have their data there."""
    usual, tempfile.tempdir = tempfile.tempdir, str(disk)
    try:
        yield
    finally:
        tempfile.tempdir = usual


def fill(disk: Path) -> Path:
    """A file that leaves no room beside it."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


@pytest.mark.chaos
def test_a_server_that_crashes_for_want_of_room_for_wal_goes_on_when_there_is_some(
    small_disk: Path, deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str
) -> None:
    with made_on(small_disk):
        server = private_postgres(max_wal_size="64MB")
    deployment = deploy(server.create_database(), kafka, topic, position={"keep": "table"})
    relay = deployment.start()
    with Writers(deployment.database, seed=20) as writers:
        writers.wait_for_more(100)
        ballast = fill(small_disk)
        with pytest.raises(psycopg.Error):
            deployment.write_rows(100_000, padding=1000)
        wait_until(lambda: "No space left on device" in server.log(), 30, "the server to have no room")
        relay.wait_for("retrying")
        ballast.unlink()
        server.restart("immediate")
        writers.wait_for_more(100)
    deployment.catch_up()
    assert_delivered(deployment, writers)
    assert relay.running


@pytest.mark.chaos
def test_a_broker_that_ends_for_want_of_room_goes_on_when_there_is_some(
    small_disk: Path, deploy: Deploy, database: Database, private_kafka: KafkaMaker
) -> None:
    with made_on(small_disk):
        broker = private_kafka()
    broker.start()
    deployment = deploy(database, broker, broker.create_topic())
    relay = deployment.start()
    with Writers(database, seed=21) as writers:
        writers.wait_for_more(100)
        ballast = fill(small_disk)
        deployment.write_rows(5000, padding=1000)
        wait_until(lambda: not broker.running, 60, "the broker to end")
        writers.wait_for_more(100)
        ballast.unlink()
        broker.start()
        writers.wait_for_more(100)
    deployment.catch_up(60)
    assert_delivered(deployment, writers)
    assert relay.running
