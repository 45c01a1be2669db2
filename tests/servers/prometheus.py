"""A Prometheus of the tests' own, and its tool that checks rules."""

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.servers.choose import Missing
from tests.servers.ports import LOOPBACK
from tests.servers.single import SingleServer

DEPLOYED = Path(__file__).parents[2] / "deploy" / "prometheus"


def prometheus_program() -> Path:
    return _program("prometheus")


def promtool_program() -> Path:
    return _program("promtool")


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise Missing(f"Prometheus is not installed: there is no {name} on PATH")
    return Path(found)


def promtool(program: Path, *arguments: str | Path) -> str:
    """What it said; AssertionError where it found a fault."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class PrometheusServer(SingleServer):
    """Scrapes that target each second, with the configuration and rules of deploy/."""

    NAME = "Prometheus"
    PATIENT_WITH = OSError
    START_WITHIN = 60

    def __init__(self, program: Path, target: str) -> None:
        super().__init__(program)
        settings: Any = yaml.safe_load((DEPLOYED / "prometheus.yaml").read_text())
        settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        settings["rule_files"] = [str(DEPLOYED / name) for name in settings["rule_files"]]
        (job,) = settings["scrape_configs"]
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": [target]}]
        self._config = self._home / "prometheus.yaml"
        self._config.write_text(yaml.safe_dump(settings))

    def query(self, expression: str) -> list[Any]:
        """The samples that the answer has now; AssertionError where Prometheus does not understand it."""
        where = f"http://{LOOPBACK}:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(where, timeout=20) as answer:
                said: Any = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from None
        found: list[Any] = said["data"]["result"]
        return found

    def _arguments(self) -> Sequence[str | Path]:
        return [
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self._home / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self.port}",
            "--log.level=warn",
        ]

    def _answers(self) -> bool:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
