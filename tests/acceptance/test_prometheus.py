"""What deploy/ has for Prometheus and Grafana, as a real Prometheus understands it that watches a real relay."""

import pytest

from tests.acceptance.conftest import Deploy
from tests.conftest import PostgresMaker
from tests.servers import choose
from tests.servers.prometheus import DEPLOYED, PrometheusServer, prometheus_program, promtool, promtool_program
from tests.servers.topics import Kafka
from tests.servers.waiting import NotInTime, wait_until
from tests.unit.test_deploy import metrics_of, queries

pytestmark = pytest.mark.slow

_ABSENT = {
    "walrelay_backfill_rows",
    "walrelay_replay_rows",
    "walrelay_fatal_errors_total",
    "walrelay_paused_timestamp_seconds",
    "walrelay_kafka_broker_throttle_seconds",
    "walrelay_telemetry_dropped_total",
}
"""What is not there before it happened, and did not happen to this relay."""


def test_the_rules_are_those_that_prometheus_accepts_and_each_alert_fires_when_it_should() -> None:
    program = choose.found(promtool_program)
    promtool(program, "check", "rules", DEPLOYED / "walrelay.rules.yaml")
    promtool(program, "check", "config", DEPLOYED / "prometheus.yaml")
    promtool(program, "test", "rules", DEPLOYED / "walrelay.rules.test.yaml")


def test_each_panel_of_the_dashboard_shows_something_of_a_relay_to_which_everything_happened(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str
) -> None:
    program = choose.found(prometheus_program)
    server = private_postgres(max_slot_wal_keep_size="1GB")
    deployment = deploy(
        server.create_database(),
        kafka,
        topic,
        http={"listen": "127.0.0.1:0"},
        refusals={"policy": "dead_letter"},
        retention="1s",
        routes=[{"name": "unwanted", "when": {"aggregate_id": "b"}, "drop": True}, {"name": "all"}],
    )
    relay = deployment.start()
    port = relay.wait_for("listening")["port"]
    deployment.write("1", "2")
    deployment.write("3", key="b")
    deployment.write('"' + "x" * 1_200_000 + '"')  # above the client's limit
    deployment.catch_up()
    server.stop()
    server.start()
    relay.wait_for("streaming", more_than=1)
    relay.wait_for("cleaned up")
    with PrometheusServer(program, f"127.0.0.1:{port}") as prometheus:
        _wait_for_samples(prometheus)
        wait_until(lambda: _firing(prometheus) == {"WalrelayDeadLetters"}, 60, "the only alert that should fire")


def _wait_for_samples(prometheus: PrometheusServer) -> None:
    left = {(panel, query) for panel, each in queries().items() for query in each if not _ABSENT & metrics_of(query)}
    assert len(left) > 30

    def all_have_some() -> bool:
        left.difference_update([each for each in left if prometheus.query(_concrete(each[1]))])
        return not left

    try:
        wait_until(all_have_some, 120, "each panel to have data")
    except NotInTime as error:
        error.add_note(str(sorted(left)))
        raise


def _concrete(query: str) -> str:
    """As Grafana asks it."""
    return query.replace("$job", "walrelay").replace("$slot", ".*").replace("$__rate_interval", "1m")


def _firing(prometheus: PrometheusServer) -> set[str]:
    return {each["metric"]["alertname"] for each in prometheus.query('ALERTS{alertstate="firing"}')}
