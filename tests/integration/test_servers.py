"""The test servers themselves: they start, stop, crash and come back, and leave nothing behind."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AclOperation

from tests.conftest import KafkaMaker, PostgresMaker, ProxyMaker
from tests.servers.choose import Machine, newest_postgres_programs
from tests.servers.database import Database, Postgres
from tests.servers.mock_kafka import MockKafka
from tests.servers.ports import LOOPBACK
from tests.servers.postgres import PostgresServer
from tests.servers.topics import QUIET, Kafka
from tests.servers.waiting import wait_until

ROOT = Path(__file__).parents[2]


def produce(bootstrap_servers: str, topic: str, *values: str, **settings: object) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap_servers, "linger.ms": 0, **settings})
    for value in values:
        producer.produce(topic, value=value.encode(), key=b"k", headers=[("h", b"1")])
    assert producer.flush(20) == 0


def test_a_logical_slot_streams_on_the_shared_server(database: Database) -> None:
    database.execute("CREATE TABLE t (n int)")
    database.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    database.execute("CREATE PUBLICATION p FOR TABLE t")
    database.execute("INSERT INTO t VALUES (%s)", [1])
    changes = database.execute(
        "SELECT * FROM pg_logical_slot_get_binary_changes"
        "('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')"
    )
    assert [bytes(data[2])[:1] for data in changes] == [b"B", b"R", b"I", b"C"]


def test_a_server_of_the_tests_has_the_long_numbers_of_a_used_one(postgres: Postgres) -> None:
    ((beyond, epoch),) = postgres.execute(
        "SELECT pg_current_wal_lsn() > 'FF/F0000000', pg_current_xact_id()::text::bigint >> 32"
    )
    assert (beyond, epoch) == (True, 3)


def test_a_dropped_database_takes_its_busy_slot_and_connections_with_it(postgres: Postgres) -> None:
    database = postgres.create_database()
    idle = database.connect()
    stream = database.connect(replication="database")
    stream.execute("CREATE_REPLICATION_SLOT busy LOGICAL pgoutput")
    stream.pgconn.send_query(b"START_REPLICATION SLOT busy LOGICAL 0/0 (proto_version '1', publication_names 'p')")
    in_use = "SELECT active FROM pg_replication_slots WHERE slot_name = 'busy'"
    wait_until(lambda: postgres.execute(in_use) == [(True,)], 10, "the slot to be in use")
    database.drop()
    assert postgres.slots(database.name) == set()
    with pytest.raises(psycopg.OperationalError):
        idle.execute("SELECT 1")
    stream.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_postgres_keeps_its_data_and_port_over_a_restart(private_postgres: PostgresMaker, mode: str) -> None:
    server = private_postgres()
    before, dsn = server.pid, server.dsn
    server.execute("CREATE TABLE t AS SELECT 1 AS n")
    server.restart("fast" if mode == "fast" else "immediate")
    assert server.pid != before
    assert server.dsn == dsn
    assert server.execute("SELECT n FROM t") == [(1,)]
    assert ("was not properly shut down" in server.log()) == (mode == "immediate")


def test_postgres_settings_are_seen_by_new_sessions_at_once(private_postgres: PostgresMaker) -> None:
    server = private_postgres(wal_sender_timeout="7s")
    assert server.execute("SHOW wal_sender_timeout") == [("7s",)]
    server.configure(wal_sender_timeout="3s", search_path=("a", "b"), log_connections=True)
    assert server.execute("SHOW wal_sender_timeout") == [("3s",)]
    assert server.execute("SHOW search_path") == [("a, b",)]
    server.configure(restart=True, max_replication_slots=3, wal_sender_timeout=None)
    assert server.execute("SHOW max_replication_slots") == [("3",)]
    assert server.execute("SHOW wal_sender_timeout") == [("7s",)]


def test_every_version_decodes_with_each_plugin_it_has(machine: Machine, private_postgres: PostgresMaker) -> None:
    for major in {16, 18, newest_postgres_programs(machine).major}:
        server = private_postgres(major=major)
        assert server.execute("SHOW server_version_num")[0][0].startswith(str(major))
        assert server.major == major
        assert server.bin("pg_recvlogical").is_file()
        server.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")


def test_wal2json_is_usable_where_it_is_installed(postgres: Postgres, database: Database) -> None:
    assert Postgres(postgres.dsn).has_wal2json == postgres.has_wal2json
    if postgres.has_wal2json:
        database.execute("SELECT pg_create_logical_replication_slot('s', 'wal2json')")


def test_the_newest_postgres_is_at_least_18(postgres18: PostgresServer) -> None:
    assert postgres18.major >= 18


def test_the_shared_broker_returns_what_was_produced(kafka: Kafka, topic: str) -> None:
    produce(kafka.bootstrap_servers, topic, "a", "b")
    first, second = kafka.read_all(topic)
    assert (first.key, first.value, first.headers, second.value) == (b"k", b"a", [("h", b"1")], b"b")
    assert len(kafka.consume(topic, count=2)) == 2


@pytest.mark.parametrize("topic", [5], indirect=True)
def test_a_topic_has_as_many_partitions_as_asked_for(kafka: Kafka, topic: str) -> None:
    assert len(kafka.admin.list_topics(topic, timeout=5).topics[topic].partitions) == 5


def test_only_committed_messages_are_read(kafka: Kafka, topic: str) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(20)
    for value, finish in (("no", producer.abort_transaction), ("yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value=value.encode())
        producer.flush(20)
        finish(20)
    assert [message.value for message in kafka.read_all(topic)] == [b"yes"]


def test_kafka_keeps_its_data_and_port_over_a_stop_and_a_kill(private_kafka: KafkaMaker) -> None:
    server = private_kafka()
    topic, address = server.create_topic(), server.bootstrap_servers
    produce(address, topic, "a")
    server.restart()
    produce(address, topic, "b")
    server.kill()
    server.start()
    produce(address, topic, "c")
    assert server.bootstrap_servers == address
    assert [message.value for message in server.read_all(topic)] == [b"a", b"b", b"c"]


def test_a_user_without_a_grant_is_refused_by_topic(private_kafka: KafkaMaker) -> None:
    server = private_kafka(users={"relay": "secret"})
    granted, refused = server.create_topic(), server.create_topic()
    server.allow("relay", AclOperation.WRITE, granted)
    codes: list[object] = []
    producer = Producer({**QUIET, **server.client_settings("relay")})
    for topic in (granted, refused):
        producer.produce(topic, b"x", on_delivery=lambda error, _: codes.append(error and error.code()))
        producer.flush(20)
    assert codes == [None, KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_an_unknown_topic_is_not_made_unless_asked_for(private_kafka: KafkaMaker) -> None:
    server = private_kafka(auto_create_topics=True)
    produce(server.bootstrap_servers, "unheard-of", "a")
    assert [message.value for message in server.read_all("unheard-of")] == [b"a"]


def test_clients_reach_a_proxied_broker_through_its_proxy_only(private_kafka: KafkaMaker) -> None:
    server = private_kafka(proxied=True)
    topic = server.create_topic()
    produce(server.bootstrap_servers, topic, "a")
    server.proxy.stall()
    producer = Producer({**QUIET, "bootstrap.servers": server.bootstrap_servers})
    producer.produce(topic, b"b")
    assert producer.flush(0.5) == 1
    assert [message.value for message in server.read_all(topic)] == [b"a"]
    server.proxy.resume()
    assert producer.flush(20) == 0
    assert [message.value for message in server.read_all(topic)] == [b"a", b"b"]


def test_the_mock_cluster_takes_and_gives_messages() -> None:
    with MockKafka() as mock:
        produce(mock.bootstrap_servers, "t", "a", **{"enable.idempotence": True})
        assert [message.value for message in mock.consume("t", count=1)] == [b"a"]
        port = int(mock.bootstrap_servers.rpartition(":")[2])
    assert not _listens(port)


def test_postgres_behind_a_proxy_loses_a_cut_connection(database: Database, proxy: ProxyMaker) -> None:
    between = proxy(database.server.port)
    with psycopg.connect(database.through(between)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        between.cut()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_tests_however_they_end(machine: Machine, tmp_path: Path, end: signal.Signals) -> None:
    newest_postgres_programs(machine)
    script = """
import time
from tests.servers.choose import newest_postgres_programs, this_machine
from tests.servers.postgres import PostgresServer
with PostgresServer(newest_postgres_programs(this_machine())) as server:
    print(server.port, server.data.parent, flush=True)
    time.sleep(60)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None
    port, home = child.stdout.readline().decode().split()
    assert _listens(int(port))
    child.send_signal(end)
    child.communicate(timeout=20)
    wait_until(lambda: not _listens(int(port)) and not Path(home).exists(), 20, "the server and its data to be gone")


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((LOOPBACK, port)) == 0
