"""Whatever a test does to the log, the next one finds it as it was."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("walrelay.kafka", "walrelay.sinks")]
    before = [(each, each.handlers, each.propagate, each.level) for each in loggers]
    last_resort = logging.lastResort
    yield
    logging.lastResort = last_resort
    for each, handlers, propagate, level in before:
        each.handlers, each.propagate = handlers, propagate
        each.setLevel(level)
    structlog.reset_defaults()
