"""A broker that is away is back-pressure: PostgreSQL keeps the events, the connection and its peace."""

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.writing import Writers
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.waiting import wait_until

PENDING = 100_000
FILLER = 500


def test_a_broker_away_for_longer_than_wal_sender_timeout_does_not_break_the_connection(
    deploy: Deploy, private_postgres: PostgresMaker, broker: KafkaServer
) -> None:
    database = private_postgres(wal_sender_timeout="4s").create_database()
    deployment = deploy(database, broker, broker.create_topic(partitions=3))
    relay = deployment.start()
    with Writers(database, seed=50) as writers:
        writers.wait_for_more(100)
        walsender = deployment.slot.pid
        broker.stop()
        stalled = relay.wait_for("stalled", more_than=1)
        assert stalled["seconds"] > 4
        causes = "refused", "disconnected", "transport failure"  # whichever client of the sink noticed it last
        assert any(cause in stalled["why"] for cause in causes), "the cause is told"
        broker.start()
    relay.wait_for("resumed")
    deployment.catch_up()
    assert deployment.slot.pid == walsender
    assert len(relay.events("streaming")) == 1
    assert assert_delivered(deployment, writers).duplicates == 0


def test_a_broker_away_at_the_start_gets_everything_when_it_comes(
    deploy: Deploy, database: Database, broker: KafkaServer
) -> None:
    deployment = deploy(database, broker, broker.create_topic())
    broker.stop()
    relay = deployment.start()
    relay.wait_for("broker away", containing="Connection refused")  # before there is anything to publish
    deployment.write("1", "2")
    relay.wait_for("stalled", more_than=1)
    assert len(relay.events("broker away")) == 1, "one line a minute"
    assert relay.events("librdkafka") == [], "not one of the client library's about each attempt"
    broker.start()
    deployment.catch_up()
    relay.wait_for("broker back")
    assert assert_delivered(deployment).events == 2


def test_a_relay_that_waits_for_the_topic_of_positions_leaves_as_soon_as_it_is_asked_to(
    deploy: Deploy, database: Database, broker: KafkaServer
) -> None:
    deployment = deploy(database, broker, broker.create_topic(), position={"keep": "topic"})
    broker.stop()
    relay = deployment.launch()
    leads = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database"
    leads += " WHERE datname = current_database())"
    wait_until(lambda: database.execute(leads), 30, "the relay to lead")
    relay.stop(timeout=20)  # it waits for 30 s before it tries again
    broker.start()


def test_confirmed_never_passes_what_is_unsettled(deploy: Deploy, database: Database, broker: KafkaServer) -> None:
    deployment = deploy(database, broker, broker.create_topic())
    relay = deployment.start()
    database.execute("CREATE TABLE other (n int)")
    deployment.catch_up()
    broker.stop()
    deployment.write("1")
    end_of_unsettled = deployment.position()
    deployment.write("2")

    def stalled() -> bool:
        """The WAL moves on with nothing for the outbox, of which keepalives tell."""
        database.execute("INSERT INTO other SELECT generate_series(1, 100)")
        assert deployment.slot.confirmed < end_of_unsettled
        return bool(relay.events("stalled"))

    wait_until(stalled, 30, "the relay to say that it stalls")
    relay.kill()
    assert deployment.slot.confirmed < end_of_unsettled
    broker.start()
    deployment.start()
    deployment.catch_up()
    assert_delivered(deployment)


def test_a_full_window_pauses_reading_without_memory_and_lets_the_stream_go_until_there_is_room(
    deploy: Deploy, database: Database, broker: KafkaServer, measured: Measured
) -> None:
    sink, source = {"max_queued_messages": 200}, {"pause_limit": 2}
    deployment = deploy(database, broker, broker.create_topic(partitions=3), sink=sink, source=source)
    relay = deployment.start()
    deployment.write("{}")
    deployment.catch_up()
    before = relay.peak_rss_bytes
    broker.stop()
    deployment.write_rows(PENDING, padding=FILLER)
    relay.wait_for("noticed", containing="the sink has accepted nothing for 2 s")
    wait_until(lambda: deployment.slot.pid is None, 20, "the slot to be free")
    grown = relay.peak_rss_bytes - before
    measured(f"growth in bytes with {PENDING * FILLER} bytes pending", grown)
    assert grown < PENDING * FILLER / 2
    broker.start()
    deployment.catch_up(timeout=60)
    assert assert_delivered(deployment).events == PENDING + 1
    assert relay.events("retrying") == [], "the lead was let go of"


def test_postgres_stops_at_once_while_the_broker_is_away(
    deploy: Deploy, private_postgres: PostgresMaker, broker: KafkaServer
) -> None:
    """A walsender whose client confirmed all it could must not hold up a fast shutdown."""
    server = private_postgres()
    deployment = deploy(server.create_database(), broker, broker.create_topic())
    relay = deployment.start()
    broker.stop()
    deployment.write("{}")
    relay.wait_for("stalled")
    server.stop("fast", timeout=10)
    relay.wait_for("retrying", containing="PostgreSQL")
    server.start()
    broker.start()
    relay.wait_for("streaming", more_than=1)
    deployment.catch_up()
    assert_delivered(deployment)
