"""Crashes at chosen steps. A step is each entry into a stage and each return from it."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Killed(BaseException):
    """The relay's process is gone: no `except` or `finally` of the relay may count on being run."""


class Fuse:
    """Counts the steps; at a step that has a crash it calls it, which raises."""

    def __init__(self) -> None:
        self.burnt = 0
        self.crashes: dict[int, Callable[[], None]] = {}
        self.at: object = None  # whose step it is
        self.dead = False  # the process, whose last calls have no effect

    def burn(self, at: object) -> None:
        if self.dead:
            raise Killed
        self.burnt += 1
        self.at = at
        if crash := self.crashes.get(self.burnt):
            crash()


class Fused(Protocol):
    """Whatever has its calls counted."""

    fuse: Fuse


S = TypeVar("S", bound=Fused)


def boundary(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A call that the relay makes into a stage: it may fail before it has any effect, and after it had all."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.fuse.burn(self)
        result = method(self, *args, **kwargs)
        self.fuse.burn(self)
        return result

    return call
