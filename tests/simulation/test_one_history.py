"""Promotions between any two questions, and connections that end on different servers: no event is lost, and nobody is
stopped who need not be.
"""

from itertools import product

import pytest

from tests.simulation.instances import Cluster, play
from walrelay.model import RelayPosition

KEEPS = ["slot", "file", "table", "topic"]


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("astray", [0.0, 0.3])
@pytest.mark.parametrize(
    "seeds", [range(15), pytest.param(range(15, 300), marks=pytest.mark.chaos)], ids=["few", "many"]
)
def test_no_schedule_of_failovers_and_restarts_loses_an_event_or_stops_a_relay(
    keep: str, astray: float, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds:
        cluster = Cluster(keep, seed=seed, instances=1 if keep == "file" else 3)
        cluster.astray = astray
        play(cluster, monkeypatch)
        assert cluster.fatals == [], f"seed {seed}"
        assert cluster.lost == set(), f"seed {seed}"


@pytest.mark.parametrize("keep", ["file", "topic"])
def test_a_promotion_between_any_two_questions_loses_nothing(keep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was published is beyond what the standby has, and the standby writes other events there."""
    for step in range(1, 40):
        cluster = Cluster(keep, seed=step, instances=2, quiet=True)
        old, standby, _ = cluster.servers
        for _ in range(10):
            old.write("of the old primary")
        published = RelayPosition(old.system, "orders", old.end)
        cluster.file = cluster.topic = published

        def fails_over(cluster: Cluster = cluster) -> None:
            cluster.promotes(cluster.servers[1], zombie=False)
            for number in range(20):
                cluster.primary.write(f"new {number}")

        cluster.routes = [standby] * 40
        cluster.plan = {step: fails_over}
        play(cluster, monkeypatch)
        assert cluster.fatals == [], f"step {step}"
        assert cluster.lost == set(), f"step {step}"


@pytest.mark.parametrize("keep", KEEPS)
def test_connections_that_end_on_two_servers_lose_nothing(keep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zombie has confirmed what on the new primary are other events."""
    for seed, ends in enumerate(product((0, 1), repeat=4)):
        cluster = Cluster(keep, seed=seed, instances=1, quiet=True)
        old, new, _ = cluster.servers
        cluster.promotes(new, zombie=True)
        for number in range(10):
            old.write("of the old primary")
            new.write(f"new {number}")
        old.write()
        old.confirmed = old.end
        cluster.routes = [cluster.servers[end] for end in ends]
        cluster.plan = {300: cluster.rejoins}  # somebody ends the old one
        play(cluster, monkeypatch)
        assert cluster.fatals == [], f"{ends}"
        assert cluster.lost == set(), f"{ends}"


@pytest.mark.parametrize("keep", KEEPS)
def test_two_standbys_that_take_the_same_timeline_one_after_the_other_lose_nothing(
    keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second never heard of the first; what the first had at a position is not what the second has there."""
    for seed in range(25):
        cluster = Cluster(keep, seed=seed, instances=1 if keep == "file" else 2, quiet=True)
        _lead_over_to_both(cluster, cluster.random.randint(100, 300))
        play(cluster, monkeypatch)
        assert cluster.primary.timeline == cluster.servers[1].timeline == 2
        assert cluster.fatals == [], f"seed {seed}"
        assert cluster.lost == set(), f"seed {seed}"


def _lead_over_to_both(cluster: Cluster, step: int) -> None:
    """From the first server to the second, and `step` steps later to the third, which had got less far."""
    old, first, second = cluster.servers

    def goes_to_the_first() -> None:
        cluster.replicates()
        first.wal, second.wal = list(old.wal), old.wal[: cluster.random.randrange(6, len(old.wal))]
        cluster.promotes(first, zombie=False, alone=True)
        for number in range(20):
            first.write(f"of the first {number}")

    def goes_to_the_second() -> None:
        cluster.promotes(second, zombie=False, alone=True)
        for number in range(40):
            second.write(f"of the second {number}")

    for number in range(10):
        old.write(f"of the old primary {number}")
    cluster.plan = {50: goes_to_the_first, 50 + step: goes_to_the_second, 600: cluster.rejoins}
