"""What stands for a signal in tests that run commands in this process."""

import pkgutil
from collections.abc import Callable
from importlib import import_module

import pytest

import walrelay.cli
from walrelay.supervise import Stop

_COMMANDS = [
    module
    for _, name, _ in pkgutil.walk_packages(walrelay.cli.__path__, "walrelay.cli.")
    if name != "walrelay.cli.ending" and hasattr(module := import_module(name), "signalled")
]


def replace_signals(monkeypatch: pytest.MonkeyPatch, stop_of: Callable[[str], Callable[..., Stop]]) -> None:
    """`stop_of` is given the name of a module with commands, and returns what takes the place of `signalled` there.

    All modules are imported before: one that a command imports during the test would keep what it finds then, and stop
    at once in the tests after it.
    """
    for module in _COMMANDS:
        monkeypatch.setattr(module, "signalled", stop_of(module.__name__))
