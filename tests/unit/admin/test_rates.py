"""How often somebody may ask."""

from walrelay.admin.rates import Rate


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_allowed_and_then_so_many_a_second() -> None:
    clock = Clock()
    rate = Rate(2, burst=3, clock=clock)
    assert [rate.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert rate.take("b") == 0
    clock.now += 0.5
    assert rate.take("a") == 0
    assert rate.take("a") == 0.5
    clock.now += 1_000
    assert [rate.take("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_waiting_counts_nothing() -> None:
    rate = Rate(1, burst=1, clock=Clock())
    assert rate.wait("a") == rate.wait("a") == rate.take("a") == 0
    assert rate.wait("a") == 1


def test_no_more_callers_are_remembered_than_fit_into_memory() -> None:
    rate = Rate(1, burst=1, clock=Clock())
    for number in range(20_000):
        rate.take(number)
    assert len(rate._buckets) == 10_000
    assert rate.take(19_999) > 0
