"""The slot is lost under load in each way there is; `walrelay recover` and then `walrelay run` lose nothing."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.backfill_process import BackfillProcess
from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment, event_id
from tests.acceptance.test_refusals import configure
from tests.acceptance.writing import Writers
from tests.conftest import PostgresMaker
from tests.servers import choose
from tests.servers.choose import Machine
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from tests.servers.standby import Standby
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.table.rows import BATCH_ROWS

MB = 2**20


def drop_slot_under_the_relay(deployment: Deployment) -> None:
    """In one statement, or the relay might have it again in between."""
    deployment.database.execute(
        "DO $$ DECLARE target record; BEGIN"
        "  SELECT slot_name, active_pid INTO target FROM pg_replication_slots WHERE database = current_database();"
        "  PERFORM pg_terminate_backend(target.active_pid, 5000);"
        "  PERFORM pg_drop_replication_slot(target.slot_name);"
        "END $$"
    )


def invalidate(server: PostgresServer) -> None:
    for _ in range(4):
        server.execute("SELECT pg_logical_emit_message(false, 'filler', 'x'), pg_switch_wal()")
    server.execute("CHECKPOINT")
    assert server.execute("SELECT wal_status FROM pg_replication_slots") == [("lost",)]


def repetitions(deployment: Deployment) -> int:
    delivered = deployment.delivered_ids()
    return len(delivered) - len(set(delivered))


def test_a_time_of_another_zone_is_not_taken_for_utc_which_would_lose_hours(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What recover tells is in UTC; who types the time of a log, or of a clock, may mean another."""
    monkeypatch.setenv("TZ", "JST-9")
    deployment.write("1")
    deployment.database.drop_slots()
    since = datetime.now(UTC) - timedelta(hours=1)
    in_japan = f"{since + timedelta(hours=9):%Y-%m-%d %H:%M}"
    deployment.command("recover", "--dry-run", "--since", in_japan, exit_code=2)
    told = deployment.command("recover", "--dry-run", "--since", f"{in_japan}+09:00")
    assert told == deployment.command("recover", "--dry-run", "--since", f"{since:%Y-%m-%d %H:%M}Z")
    assert "to publish  1 row" in told
    assert f"before {since:%Y-%m-%dT%H:%M}:00+00:00 (--since)" in told


def test_a_slot_dropped_under_load_is_recovered_without_a_loss_or_a_repetition(deployment: Deployment) -> None:
    with Writers(deployment.database, seed=11) as writers:
        relay = deployment.start()
        writers.wait_for_more(200)
        drop_slot_under_the_relay(deployment)
        assert relay.wait(20) == 1
        writers.wait_for_more(200)
        assert "rows" in deployment.command("recover", "--dry-run")
        deployment.command("recover", "--yes")
        deployment.start()
        writers.wait_for_more(200)
    deployment.catch_up()
    assert assert_delivered(deployment, writers).duplicates == 0


def fan_out(deployment: Deployment) -> str:
    """Lets each event go to a second topic, too, and returns that."""
    second = deployment.kafka.create_topic(partitions=3)
    routes = [{"name": "all", "continue": True, "topic": deployment.topic}, {"name": "second", "topic": second}]
    deployment.write_settings(routes=routes)
    return second


def lacking(deployment: Deployment, *topics: str) -> dict[str, int]:
    """How many rows of the table each of these topics lacks."""
    committed = {str(row) for (row,) in deployment.database.execute("SELECT id FROM outbox")}
    found = {topic: {event_id(each) for each in deployment.broker.read_all(topic)} for topic in topics}
    return {topic: len(committed - ids) for topic, ids in found.items()}


@pytest.mark.parametrize("delivery", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.slow)])
def test_a_relay_and_its_recovery_that_are_killed_leave_no_topic_without_an_event(
    deployment: Deployment, delivery: str
) -> None:
    """Each row has a message for two topics: that one of them has it says nothing about the other."""
    deployment.write_settings(delivery=delivery)
    second = fan_out(deployment)
    with Writers(deployment.database, seed=16) as writers:
        relay = deployment.start()
        writers.wait_for_more(200)
        deployment.write_rows(10_000)
        wait_until(lambda: len(deployment.delivered()) > 500, 30, "a part of it to be published")
        relay.kill()
        wait_until(lambda: deployment.slot.pid is None, 30, "the slot to be free")
        deployment.database.execute("SELECT pg_drop_replication_slot(%s)", [deployment.slot_name])
        for _ in range(2):
            BackfillProcess(deployment, "recover", "--yes").kill_after(1)
        deployment.command("recover", "--yes")
        deployment.start()
        writers.wait_for_more(50)
    deployment.catch_up()
    assert lacking(deployment, deployment.topic, second) == {deployment.topic: 0, second: 0}


def test_a_topic_that_refused_a_message_gets_it_from_the_recovery(deployment: Deployment) -> None:
    second = fan_out(deployment)
    configure(deployment.kafka, second, {"max.message.bytes": "2000"})
    relay = deployment.start()
    deployment.write('"1"', f'"{"x" * 5000}"')
    assert relay.wait(30) == 1
    deployment.database.drop_slots()
    configure(deployment.kafka, second, {"max.message.bytes": "1000000"})
    assert "only the messages that their topics do not have" in deployment.command("recover", "--dry-run")
    deployment.command("recover", "--yes")
    assert lacking(deployment, deployment.topic, second) == {deployment.topic: 0, second: 0}


def test_no_event_of_a_blocked_key_passes_its_dead_letter_by_a_recovery(deployment: Deployment) -> None:
    deployment.write_settings(delivery="exactly_once", refusals={"policy": "dead_letter", "block_key": True})
    configure(deployment.kafka, deployment.topic, {"max.message.bytes": "2000"})
    relay = deployment.start()
    deployment.write("1", f'"{"x" * 5000}"', "3")
    deployment.catch_up()
    relay.stop()
    deployment.database.drop_slots()
    deployment.write("4")
    told = deployment.command("recover", "--yes")
    assert "blocked   1 message behind a dead letter of the same key: walrelay dlq replay" in told
    deployment.start()
    deployment.write("5")
    deployment.catch_up()
    assert [message.value for message in deployment.delivered()] == [b"1"]
    configure(deployment.kafka, deployment.topic, {"max.message.bytes": "1000000"})
    assert "replayed" in deployment.command("dlq", "replay", "--status", "waiting")
    values = [message.value or b"" for message in deployment.delivered()]
    assert [value[:2] for value in values] == [b"1", b'"x', b"3", b"4", b"5"]


@pytest.mark.parametrize("recall", ["50000", "0"])
def test_a_slot_invalidated_while_the_relay_was_away_is_recovered_without_a_loss(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str, recall: str, measured: Measured
) -> None:
    """Without reading the topics back, what comes again is what was written since the server last noted for the slot
    which transactions were running, which it does every 15 seconds.
    """
    server = private_postgres(max_slot_wal_keep_size="16MB", min_wal_size="32MB", max_wal_size="32MB")
    deployment = deploy(server.create_database(), kafka, topic)
    with Writers(deployment.database, seed=12) as writers:
        relay = deployment.start()
        writers.wait_for_more(400)
        deployment.catch_up()
        relay.kill()
        published = len(deployment.delivered_ids())
        writers.wait_for_more(400)
        invalidate(server)
        deployment.command("recover", "--yes", "--recall", recall)
        deployment.start()
        writers.wait_for_more(200)
    deployment.catch_up()
    duplicates = assert_delivered(deployment, writers).duplicates
    measured(f"messages repeated by a recovery of an invalidated slot with --recall {recall}", duplicates)
    assert duplicates <= (published if recall == "0" else 0)


def test_a_recovery_killed_in_the_middle_under_load_loses_nothing(deployment: Deployment, measured: Measured) -> None:
    deployment.database.execute("SELECT pg_drop_replication_slot(%s)", [deployment.slot_name])
    deployment.write_rows(40_000)
    kills = 3
    with Writers(deployment.database, seed=13) as writers:
        for _ in range(kills):
            BackfillProcess(deployment, "recover", "--yes").kill_after(BATCH_ROWS)
        deployment.command("recover", "--yes")
        deployment.start()
        writers.wait_for_more(100)
    deployment.catch_up()
    delivered = Counter(deployment.delivered_ids())
    assert delivered.keys() == {str(row) for (row,) in deployment.database.execute("SELECT id FROM outbox")}
    repeated = delivered.total() - len(delivered)
    measured(f"rows repeated by {kills} kills of a recovery", repeated)
    assert repeated <= kills * BATCH_ROWS


@pytest.fixture
def primary(machine: Machine) -> Iterator[PostgresServer]:
    programs = choose.found(lambda: choose.newest_postgres_programs(machine))
    with PostgresServer(programs, {"wal_keep_size": "256MB"}) as server:
        yield server


def test_a_slot_that_the_promoted_standby_does_not_have_is_recovered_without_a_loss(
    deploy: Deploy, primary: PostgresServer, kafka: Kafka, topic: str, measured: Measured
) -> None:
    """What the standby lacked when it was promoted is lost by the failover, and was published: nobody can help that."""
    deployment = deploy(primary.create_database(), kafka, topic)
    with Standby(primary) as standby:
        writers = Writers(deployment.database, seed=14)
        writers.start()
        relay = deployment.start()
        writers.wait_for_more(300)
        standby.catch_up()
        relay.kill()
        writers.wait_for_more(300)  # the standby has these, the topic has not
        standby.catch_up()
        standby.cut_off()
        deployment.start()
        writers.wait_for_more(100)  # and these the other way round
        writers.stop()
        deployment.catch_up()
        deployment.relays[-1].kill()
        primary.stop("immediate")
        standby.promote()
        moved = deployment.database = Database(standby, deployment.database.name)
        deployment.write_settings()
        assert deployment.launch().wait(20) == 1, "the slot is not there"
        unpublished = 100
        with Writers(moved, seed=15) as later:
            later.wait_for_more(unpublished)
            before = repetitions(deployment)  # by the relay that was killed
            told = deployment.command("recover", "--yes")
            deployment.start()
            later.wait_for_more(100)
        deployment.catch_up()
        deployment.relays[-1].stop()
        committed = {str(row) for (row,) in moved.execute("SELECT id FROM outbox")}
        moved.drop_slots()
    delivered = set(deployment.delivered_ids())
    measured("messages repeated by a recovery after a failover", repetitions(deployment) - before)
    assert later.acknowledged <= committed <= delivered
    assert delivered - committed <= writers.acknowledged
    assert repetitions(deployment) == before, told


def test_a_row_that_cannot_be_published_is_corrected_in_the_table_and_the_recovery_goes_on(
    deployment: Deployment,
) -> None:
    written = deployment.write("1")
    written += deployment.write("2", topic="no topic")
    written += deployment.write("3")
    deployment.database.execute("SELECT pg_drop_replication_slot(%s)", [deployment.slot_name])
    refused = BackfillProcess(deployment, "recover", "--yes")
    assert refused.wait() == 1
    assert "correct the row there, or delete it, and run the same command again" in refused.output()
    assert "the WAL" not in refused.output()
    # Of the batch with the refused row others may be out, also twice: the sink sends it again, each message alone.
    found = deployment.delivered_ids()
    deployment.database.execute("UPDATE outbox SET topic = NULL")
    deployment.command("recover", "--yes")
    delivered = deployment.delivered_ids()
    assert delivered[: len(found)] == found
    assert delivered[len(found) :] == [event for event in written if event not in found]


def test_a_recovery_says_what_it_will_do_and_asks(deployment: Deployment) -> None:
    deployment.write("1", "2")
    deployment.database.execute("SELECT pg_drop_replication_slot(%s)", [deployment.slot_name])
    declined = BackfillProcess(deployment, "recover")
    assert declined.wait() == 1
    output = declined.output()
    for told in (
        "is gone (it was made at",
        "2 rows, from",
        "none in the topics of the rules of now; of 2 rows it is unknown whether other topics have them",
        "Make a new slot",
    ):
        assert told in output
    assert deployment.slot_name not in deployment.database.server.slots()
    assert deployment.delivered() == []
