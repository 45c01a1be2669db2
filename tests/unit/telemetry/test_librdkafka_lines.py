"""What librdkafka says goes through Python's logging and comes out as events, so that stderr is JSON lines only."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from walrelay.telemetry import logs

KAFKA = logging.getLogger("walrelay.kafka")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    handlers, propagate = KAFKA.handlers, KAFKA.propagate
    yield
    KAFKA.handlers, KAFKA.propagate = handlers, propagate
    structlog.reset_defaults()


def test_a_line_of_librdkafka_is_an_event_of_its_level(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    KAFKA.error("FAIL [%s]: Connection refused", "walrelay#producer-1")
    out, err = capsys.readouterr()
    event = json.loads(err)
    assert out == ""
    assert (event["event"], event["level"]) == ("librdkafka", "error")
    assert event["text"] == "FAIL [walrelay#producer-1]: Connection refused"


def test_lines_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "error")
    KAFKA.warning("FAIL")
    assert capsys.readouterr().err == ""
