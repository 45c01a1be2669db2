"""A world that breaks once, at each of its steps in turn."""

from collections.abc import Callable

from tests.simulation.world import World


def steps(make: Callable[[], World]) -> int:
    """How many a world takes in which nothing breaks."""
    world = make()
    world.live()
    world.verify()
    assert world.repetitions() == 0
    return world.fuse.burnt


def broken_at_each_step(make: Callable[[], World], kind: str, *, first: int = 1, stride: int = 2) -> None:
    for step in range(first, steps(make) + 1, stride):
        world = make()
        world.fuse.crashes[step] = getattr(world, kind)
        world.live()
        world.verify()
        if kind == "connection_breaks_alone":
            assert world.repetitions() == 0, f"it broke at step {step}"
