"""What counts as lost, repeated and out of order, and what an event's latency is."""

from walrelay.lab.bench.account import CommittedEvent, LatencyAccount, Received

MS = 1_000_000


def account(*committed: int, expected: int | None = None) -> LatencyAccount:
    """Event `n` committed at `n` ms."""
    made = LatencyAccount(len(committed) if expected is None else expected)
    for number in committed:
        made.commit(CommittedEvent(0, number, number * MS))
    return made


def receive(account: LatencyAccount, *numbers: int, partition: int = 0, at_ms: float = 100) -> None:
    for number in numbers:
        account.receive(Received(0, number, partition, 0, int(at_ms * MS)))


def faults(account: LatencyAccount) -> tuple[int, int, int]:
    return account.lost, account.duplicates, account.out_of_order


def test_everything_once_and_in_order_is_sound() -> None:
    made = account(0, 1, 2, 3)
    receive(made, 0, 2)
    receive(made, 1, 3, partition=1)
    assert faults(made) == (0, 0, 0)
    assert made.complete


def test_what_does_not_arrive_is_lost() -> None:
    made = account(0, 1, 2)
    receive(made, 0, 2)
    assert faults(made) == (1, 0, 0)
    assert not made.complete


def test_what_arrives_again_is_a_duplicate_and_not_also_out_of_order() -> None:
    made = account(0, 1)
    receive(made, 0, 1, 0, 1)
    assert faults(made) == (0, 2, 0)
    assert made.received == 2


def test_the_time_of_the_first_arrival_counts() -> None:
    made = account(0)
    receive(made, 0, at_ms=5)
    receive(made, 0, at_ms=50)
    assert made.latencies_ms == [5.0]


def test_an_event_behind_a_later_one_of_its_partition_is_out_of_order() -> None:
    made = account(0, 1, 2, 3)
    receive(made, 0, 3, 1, 2)
    assert faults(made) == (0, 0, 2)


def test_an_order_between_partitions_is_not_promised() -> None:
    made = account(0, 1)
    receive(made, 1, partition=0)
    receive(made, 0, partition=1)
    assert faults(made) == (0, 0, 0)


def test_events_of_the_warm_up_have_no_latency_but_may_not_be_repeated() -> None:
    made = account(-2, -1, 0, expected=1)
    receive(made, -2, -1, 0, -1)
    assert (made.warming, made.warm, made.committed, made.received, len(made.latencies_ms)) == (2, 2, 1, 1, 1)
    assert made.complete
    assert faults(made) == (0, 1, 0)


def test_what_arrives_before_the_writer_knows_that_it_is_committed_took_no_time() -> None:
    made = account(expected=1)
    receive(made, 0, at_ms=3)
    assert not made.complete
    made.commit(CommittedEvent(0, 0, 4 * MS))
    assert made.latencies_ms == [0.0]
    assert made.complete


def test_it_is_not_complete_before_all_is_written() -> None:
    made = account(0, 1, expected=3)
    receive(made, 0, 1)
    assert (made.written, made.complete) == (False, False)
