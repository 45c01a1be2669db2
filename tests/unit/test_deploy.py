"""What deploy/ has for those who watch: it names metrics that exist, and pages that say what to do."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from walrelay.admin.access import Door
from walrelay.cli.docs import pages, section
from walrelay.config.admin import AdminSettings
from walrelay.telemetry.instruments import INSTRUMENTS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "walrelay.rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD = DEPLOY / "grafana" / "walrelay.json"
REGENERATE = "python deploy/grafana/make.py > deploy/grafana/walrelay.json"
OF_THE_PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"}
FORM = ["Means", "Look at", "Type", "Afterwards"]


def samples() -> set[str]:
    """The names of all samples that /metrics has."""
    names = {each.name for each in INSTRUMENTS}
    ends = ("_bucket", "_sum", "_count")
    return names | {each.name + end for each in INSTRUMENTS if each.kind == "histogram" for end in ends}


def metrics_of(expression: str) -> set[str]:
    """Without what stands in quotes or is a label."""
    bare = re.sub(r'"[^"]*"|by \([^)]*\)', "", expression)
    return set(re.findall(r"\b(?:walrelay|messaging|process)_[a-z_]+", bare))


def queries() -> dict[str, list[str]]:
    """Of the dashboard, by panel."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return {f"{each['id']} {each['title']}": [one["expr"] for one in each.get("targets", [])] for each in panels}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_is_about_metrics_that_exist_and_has_its_page(rule: dict[str, Any]) -> None:
    metrics = metrics_of(rule["expr"])
    assert metrics or "up{" in rule["expr"]
    assert metrics <= samples()
    command, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert command == "walrelay docs runbook"
    page = section(RUNBOOK, anchor)
    assert page is not None
    assert f"`{rule['alert']}`" in page
    assert rule["labels"]["severity"] in ("critical", "warning")


def test_each_alert_has_a_test_in_which_it_fires() -> None:
    tests = (DEPLOY / "prometheus" / "walrelay.rules.test.yaml").read_text()
    fired = set(re.findall(r'alertname="?(\w+)|alertname: (\w+)', tests))
    assert {left or right for left, right in fired} == {rule["alert"] for rule in RULES}
    assert all("exp_samples: []" in each for each in tests.split("  - name: ")[1:] if "there never was" not in each)


def test_the_dashboard_is_what_its_panels_say() -> None:
    made = runpy.run_path(str(DEPLOY / "grafana" / "make.py"))["dashboard"]()
    assert json.loads(DASHBOARD.read_text()) == made, REGENERATE


def test_every_panel_is_about_metrics_that_exist() -> None:
    shown = set().union(*(metrics_of(each) for of_panel in queries().values() for each in of_panel))
    assert len(shown) > 30
    assert shown - samples() == OF_THE_PROCESS


def test_the_compose_file_has_what_prometheus_and_grafana_read() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    relay = yaml.safe_load((DEPLOY / "walrelay.yaml").read_text())
    (job,) = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert services[found["names"][0]]["deploy"]["replicas"] == 2
    assert relay["http"]["listen"] == f"0.0.0.0:{found['port']}"
    assert "metrics" in (DEPLOY / "Dockerfile").read_text()
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/walrelay.yaml").read_text())["providers"]
    mounted = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/walrelay.json" in mounted


def test_the_compose_file_has_the_console_for_this_machine_only_and_says_by_which_token() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    assert yaml.safe_load(text)["services"]["admin"]["ports"] == ["127.0.0.1:8642:8642"]
    admin = AdminSettings.model_validate(yaml.safe_load((DEPLOY / "walrelay.yaml").read_text())["admin"])
    (token,) = re.findall(r"walrelay_[a-z_]{20,}", text)
    found = Door(admin).caller({"authorization": [f"Bearer {token}"]}, "127.0.0.1", None)
    assert found is not None
    assert found.may("admin")


def test_each_page_of_the_runbook_has_the_same_form() -> None:
    found = re.split(r"^### (.*)$", RUNBOOK, flags=re.M)[1:]
    assert len(found) > 50
    for title, text in zip(found[::2], found[1::2], strict=True):
        assert re.findall(r"^- \*\*([^*]+)\*\*: .", text, re.M) == FORM, title


def test_every_section_that_the_runbook_and_alerts_lead_to_exists() -> None:
    for page, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", RUNBOOK):
        text = RUNBOOK if not page else pages()[page.removesuffix(".md")].read_text()
        assert section(text, anchor), f"{page}#{anchor}"
