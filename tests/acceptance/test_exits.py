"""How the process ends and what it says: exit codes, hints, and never a traceback."""

from contextlib import closing

import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.conftest import PostgresMaker, ProxyMaker
from tests.servers.database import Database
from tests.servers.topics import Kafka
from walrelay.postgres.connect import replication


def test_postgres_out_of_reach_is_retried_with_a_line_that_becomes_an_error_and_no_traceback(
    deploy: Deploy, private_postgres: PostgresMaker, proxy: ProxyMaker, kafka: Kafka, topic: str
) -> None:
    server = private_postgres()
    database, way = server.create_database(), proxy(server.port)
    deployment = deploy(database, kafka, topic, source={"dsn": database.through(way)})
    way.refuse()
    relay = deployment.launch()
    retrying = relay.wait_for("retrying")
    assert f"no connection to PostgreSQL at {way.address}/{database.name}" in retrying["cause"]
    assert 0 < retrying["pause"] <= 1
    assert retrying["level"] == "warning"
    lasting = relay.wait_for("retrying", containing='"level": "error"')
    assert lasting["attempt"] == 3
    assert "`walrelay doctor`" in lasting["cause"]
    way.resume()
    relay.wait_for("streaming")
    relay.stop()


def test_a_stop_while_postgres_is_out_of_reach_does_not_wait_for_the_next_try(
    deploy: Deploy, private_postgres: PostgresMaker, proxy: ProxyMaker, kafka: Kafka, topic: str
) -> None:
    server = private_postgres()
    database, way = server.create_database(), proxy(server.port)
    retry = {"min_pause": 60, "max_pause": 60}
    deployment = deploy(database, kafka, topic, source={"dsn": database.through(way)}, retry=retry)
    way.refuse()
    relay = deployment.launch()
    relay.wait_for("retrying")
    relay.stop(timeout=10)


def test_a_stop_while_another_connection_has_the_slot_is_one_in_good_order(
    deployment: Deployment, database: Database
) -> None:
    """Nothing was read, so there is nothing to settle; and how often it is tried is no fault of anybody's."""
    with closing(replication(database.dsn)) as holder:
        holder.pgconn.exec_(
            f"START_REPLICATION SLOT {deployment.slot_name} LOGICAL 0/0 (proto_version '1',"
            f" publication_names 'walrelay')".encode()
        )
        relay = deployment.launch()
        relay.wait_for("retrying", containing="is in use by PID")
        relay.stop()
    assert {event["level"] for event in relay.events("retrying")} == {"warning"}
    assert relay.events("noticed") == []


def test_an_option_that_librdkafka_refuses_here_is_fatal_with_a_hint(deployment: Deployment) -> None:
    deployment.write_settings(sink={"options": {"security.protocol": "ssl", "ssl.ca.location": "/not/there"}})
    relay = deployment.launch()
    assert relay.wait() == 1
    (fatal,) = relay.events("fatal")
    assert "ssl.ca.location" in fatal["error"]
    assert "sink.options" in fatal["hint"]


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"sink": {"options": {"acks": 1}}}, "acks=all is what makes a message durable"),
        ({"sink": {"kind": "pigeon"}}, "there is no sink of kind 'pigeon'"),
        ({"source": {"slott": "x"}}, "source: unknown key 'slott'; did you mean 'slot'?"),
    ],
)
def test_settings_that_cannot_be_used_end_with_2_and_a_line_that_says_where(
    deployment: Deployment, section: dict[str, dict[str, object]], complaint: str
) -> None:
    deployment.write_settings(**section)
    relay = deployment.launch()
    assert relay.wait() == 2
    said = "".join(relay.not_json)
    relay.not_json.clear()  # how the log is to be written is not known yet
    assert complaint in said
    assert f"{deployment.config}:" in said
    assert "Traceback" not in said
