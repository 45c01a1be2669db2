"""The rules of deploy/ as Prometheus understands them."""

import pytest

from tests.servers import choose
from tests.servers.prometheus import DEPLOYED, promtool, promtool_program

pytestmark = pytest.mark.slow


def test_the_rules_are_those_that_prometheus_accepts_and_each_alert_fires_when_it_should() -> None:
    program = choose.found(promtool_program)
    assert "14 rules found" in promtool(program, "check", "rules", DEPLOYED / "walrelay.rules.yaml")
    promtool(program, "check", "config", DEPLOYED / "prometheus.yaml")
    promtool(program, "test", "rules", DEPLOYED / "walrelay.rules.test.yaml")
