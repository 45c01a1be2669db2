"""Pausing a relay and resuming it, and what is made of that: a restart without a new process, and a drain."""

from walrelay.operations.pausing.drain import Drain, DrainRequest
from walrelay.operations.pausing.pause import (
    Asking,
    PauseCost,
    Resumption,
    await_obedience,
    pause,
    pause_cost,
    resume,
)
from walrelay.operations.pausing.restart import RestartStep, refuse_restart, restart

__all__ = [
    "Asking",
    "Drain",
    "DrainRequest",
    "PauseCost",
    "RestartStep",
    "Resumption",
    "await_obedience",
    "pause",
    "pause_cost",
    "refuse_restart",
    "restart",
    "resume",
]
