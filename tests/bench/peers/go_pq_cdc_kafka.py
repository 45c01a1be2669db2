"""go-pq-cdc-kafka: a library for Go, with a small program of ours around it; pgoutput to Kafka."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.bench.peers.contract import Command, NotRun, Outbox, Site, Variant
from tests.bench.peers.pgoutput import publish
from tests.bench.peers.walrelay_peer import OUTBOX

_VERSION = "1.3.1"
_SOURCE = Path(__file__).with_name("go_pq_cdc_kafka_program")
_SLOT, _PUBLICATION = "cdc_slot", "cdc_publication"
_BUILDS_WITHIN = 600.0


class GoPqCdcKafka:
    """One process of Go."""

    name = "go-pq-cdc-kafka"

    def __init__(self) -> None:
        self._program = Path()

    def install(self, cache: Path) -> str:
        self._program = (cache / f"{self.name}-{_VERSION}" / "relay").absolute()
        if not self._program.exists():
            _build(self._program)
        return _VERSION

    def outbox(self, variant: Variant) -> Outbox:
        return OUTBOX

    def prepare(self, site: Site, variant: Variant) -> None:
        publish(site, f"CREATE PUBLICATION {_PUBLICATION} FOR TABLE outbox", _SLOT)
        settings = {
            "host": site.host,
            "port": site.port,
            "user": site.user,
            "password": site.password,
            "database": site.database,
            "publication": _PUBLICATION,
            "slot": _SLOT,
            "brokers": site.bootstrap_servers.split(","),
            "topic": site.topic,
            "metricPort": site.http_port,
            "tuned": variant == "tuned",
        }
        (site.directory / "settings.json").write_text(json.dumps(settings))

    def command(self, site: Site, variant: Variant) -> Command:
        return Command([self._program, "settings.json"], {}, site.directory)


def _build(program: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise NotRun("needs Go to build a program around it")
    program.parent.mkdir(parents=True, exist_ok=True)
    for file in _SOURCE.iterdir():
        shutil.copy(file, program.parent)  # go writes the versions that it found beside them
    done = subprocess.run(
        [go, "build", "-mod=mod", "-o", program, "."],
        cwd=program.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_BUILDS_WITHIN,
    )
    if done.returncode != 0:
        raise NotRun(f"Go could not build it: {done.stderr.strip().splitlines()[-1]}")
