"""The clock of a simulation, in place of the real one."""

from random import Random

import pytest

from tests.simulation.clock import Clock, put_in_place


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    put_in_place(monkeypatch, clock, Random(0))
    return clock
