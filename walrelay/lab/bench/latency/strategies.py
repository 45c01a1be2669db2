"""The strategies that are compared: how each worker is started, and what must be known of it to measure it."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from walrelay import config
from walrelay.config import Settings
from walrelay.lab.bench.names import POSITIONS, PUBLICATION, SLOT, TABLE, TOPIC

RELAY, EXACTLY_ONCE = "walrelay", "exactly-once"


class Way(NamedTuple):
    """How a strategy gets events from the outbox to the broker."""

    name: str
    polling: Sequence[str] = ()  # arguments of walrelay.lab.bench.polling; none: the relay
    interval: float = 0.0  # seconds: one at least must be measured
    longest_pause: float = 0.0  # seconds in which it may be silent although events wait
    listens: bool = False
    exactly_once: bool = False

    def command(self, settings: Path) -> list[str]:
        """To be run with DATABASE_URL and KAFKA_BOOTSTRAP_SERVERS in the environment."""
        if self.polling:
            return [sys.executable, "-m", "walrelay.lab.bench.polling", TABLE, TOPIC, *self.polling]
        run = [sys.executable, "-m", "walrelay", "run", "--config"]
        # Another strategy moved the slot meanwhile, which the position in Kafka does not know.
        return [*run, str(_exactly_once(settings)), "--from-slot"] if self.exactly_once else [*run, str(settings)]


def _every(name: str, seconds: float) -> Way:
    return Way(name, ["--every", str(seconds)], seconds, seconds)


_WAYS = (
    Way(RELAY),
    Way(EXACTLY_ONCE, exactly_once=True),
    _every("polling-5s", 5),
    _every("polling-1s", 1),
    _every("polling-100ms", 0.1),
    _every("polling-10ms", 0.01),
    Way("polling-backoff", ["--back-off"], 1, 60),
    Way("polling-notify", ["--listen", "--every", "5"], 0, 5, listens=True),
)
WAYS: Mapping[str, Way] = {way.name: way for way in _WAYS}

# As a user would write it; the rest is walrelay's defaults.
_SETTINGS: Mapping[str, Any] = {
    "source": {"dsn": "${DATABASE_URL}", "slot": SLOT, "publication": PUBLICATION},
    "outbox": {"table": TABLE},
    "route": {"topic": "walrelay.bench.{aggregate_type}"},
    "sink": {
        "kind": "kafka",
        "bootstrap_servers": "${KAFKA_BOOTSTRAP_SERVERS}",
        "positions_topic": POSITIONS,
    },
    "log": {"format": "json"},
}


def write_settings(path: Path) -> None:
    """The relay's settings file; JSON is YAML too."""
    path.write_text(json.dumps(_SETTINGS))
    _exactly_once(path).write_text(json.dumps({**_SETTINGS, "delivery": "exactly_once"}))


def _exactly_once(settings: Path) -> Path:
    """The settings file beside it, for the relay that publishes exactly once."""
    return settings.with_name("exactly_once.yaml")


def settings(environment: Mapping[str, str]) -> Settings:
    return config.parse(json.dumps(_SETTINGS), "walrelay.yaml", environment)
