"""The settings of what watches: addresses, and further names for metrics."""

import pytest
from pydantic import ValidationError

from walrelay.config.monitoring import HttpSettings, MetricsSettings


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::1]:0", ("::1", 0)), ("localhost:65535", ("localhost", 65535))],
)
def test_an_address_is_host_and_port(listen: str, address: tuple[str, int]) -> None:
    assert HttpSettings(listen=listen).address == address


@pytest.mark.parametrize("listen", ["9464", ":9464", "localhost", "localhost:65536", "localhost:x", "[]:1", "a:²"])
def test_what_is_no_address_is_refused(listen: str) -> None:
    with pytest.raises(ValidationError, match="is no address: write host:port"):
        HttpSettings(listen=listen)


@pytest.mark.parametrize(
    "aliases",
    [
        {"outbox_backlog": "walrelay_lag_seconds", "outbox_sent_total": "walrelay_published_messages_total"},
        {"latency": "walrelay_publish_latency_seconds"},
    ],
)
def test_a_metric_may_have_further_names(aliases: dict[str, str]) -> None:
    assert MetricsSettings(aliases=aliases).aliases == aliases


@pytest.mark.parametrize(
    ("aliases", "said"),
    [
        ({"a": "walrelay_lag"}, "is no metric of walrelay's"),
        ({"a b": "walrelay_lag_seconds"}, "cannot be the name of another metric"),
        ({"walrelay_lag_bytes": "walrelay_lag_seconds"}, "cannot be the name of another metric"),
        ({"walrelay_records": "walrelay_lag_seconds"}, "cannot be the name of another metric"),
        ({"a": "walrelay_lag_seconds", "a_total": "walrelay_records_total"}, "cannot be the name of another metric"),
        ({"walrelay_publish_latency_seconds_bucket": "walrelay_lag_seconds"}, "cannot be the name of another metric"),
        ({"a_info": "walrelay_lag_seconds"}, "cannot be the name of another metric"),
        ({"a_total": "walrelay_lag_seconds"}, "must end in _total if, and only if"),
        ({"a": "walrelay_records_total"}, "must end in _total if, and only if"),
    ],
)
def test_a_name_that_prometheus_would_take_for_another_metrics_is_refused(aliases: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        MetricsSettings(aliases=aliases)
