"""How a fatal error looks: lines to read and paste on a terminal, one event for machines."""

import json
from collections.abc import Iterator

import pytest
import structlog

from walrelay.errors import Fatal
from walrelay.telemetry import logs

ERROR = Fatal('topic "a" does not exist', hint="kafka-topics.sh --create --topic 'a' --partitions 12")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_a_command_in_a_hint_can_be_pasted_from_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("console", "info")
    logs.LogObserver(slot="s").failed(ERROR)
    *_, error, hint = capsys.readouterr().err.splitlines()
    assert error == f"error: {ERROR}"
    assert hint == f"hint: {ERROR.hint}"


def test_a_fatal_error_is_one_event_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    logs.LogObserver(slot="s").failed(ERROR)
    event = json.loads(capsys.readouterr().err)
    assert (event["event"], event["error"], event["hint"]) == ("fatal", str(ERROR), ERROR.hint)
