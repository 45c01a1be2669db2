"""The clock of a simulation, in place of the real one."""

import pytest

from tests.simulation.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("relay.loop", "relay.settling", "observe", "supervise", "dead_letters.decisions"):
        monkeypatch.setattr(f"walrelay.{module}.monotonic", clock)
    return clock
