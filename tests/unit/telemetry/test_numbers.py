"""The numbers of a relay, and how they are shown."""

from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from walrelay.errors import Fatal, Refused
from walrelay.lsn import LSN
from walrelay.model import Message
from walrelay.observe import (
    Behind,
    Confirmed,
    EndedFatally,
    Happening,
    Relayed,
    Resumed,
    Retrying,
    Settled,
    Stalled,
    StandingBy,
    Streaming,
    WaitedForRoom,
)
from walrelay.operations.figures import SlotFigures
from walrelay.telemetry.health import RelayHealth, health
from walrelay.telemetry.instruments import INSTRUMENTS, RelayView
from walrelay.telemetry.numbers import OTHER_TOPICS, RelayNumbers
from walrelay.telemetry.prometheus import Exposition

STREAMING = Streaming("s", LSN(1), "pgoutput")
FIGURES = SlotFigures(True, "reserved", "0/5", 0, 10, None, 0.0, 0, 8192, 0, 0)
STALL = 60.0


def seen(*happenings: Happening, several_sinks: bool = False, topics: int = 100) -> RelayNumbers:
    numbers = RelayNumbers("s", several_sinks=several_sinks, topics=topics)
    for each in happenings:
        numbers.saw(each)
    return numbers


def view(
    numbers: RelayNumbers, figures: SlotFigures | None = FIGURES, unmoved_since: float = float("inf")
) -> RelayView:
    return RelayView("r", numbers, {"": "kafka"}, figures, figures is not None, unmoved_since)


def told(numbers: RelayNumbers, after: float = 0.0, **others: object) -> RelayHealth:
    """So many seconds after the loop last turned."""
    return health(view(numbers, **others), numbers.turned_at + after, STALL)  # type: ignore[arg-type]


def message(topic: str, value: bytes | None = b"12345") -> Message:
    return Message(topic, None, value, [], 0)


def samples(numbers: RelayNumbers, name: str) -> dict[tuple[str, ...], float]:
    """By the values of its own labels."""
    text, _ = Exposition(lambda: [view(numbers)], {}).text("application/openmetrics-text; version=1.0.0")
    return {
        tuple(value for label, value in sorted(each.labels.items()) if label not in ("relay", "slot")): each.value
        for family in text_string_to_metric_families(text.decode())  # type: ignore[no-untyped-call]
        for each in family.samples
        if each.name == name
    }


def test_what_is_sent_is_counted_by_topic() -> None:
    numbers = seen(Relayed(3, 3, [message("a"), message("b", None), message("a")], [2, 1], 3))
    assert samples(numbers, "messaging_client_sent_messages_total") == {("a", "kafka", ""): 2, ("b", "kafka", ""): 1}
    assert samples(numbers, "walrelay_sent_bytes_total") == {("a", "kafka", ""): 10, ("b", "kafka", ""): 0}
    assert samples(numbers, "walrelay_records_total") == {(): 3}
    assert samples(numbers, "walrelay_transaction_records_bucket")["1",] == 1
    assert samples(numbers, "walrelay_in_flight_messages") == {(): 3}


def test_the_address_of_one_of_several_sinks_is_taken_apart() -> None:
    numbers = seen(Relayed(1, 1, [message("left:a:b")]), several_sinks=True)
    assert [*numbers.sent] == [("left", "a:b")]


def test_topics_beyond_the_limit_share_a_number() -> None:
    many = [message(f"t{number}") for number in range(5_000)]
    numbers = seen(Relayed(1, 1, many), Relayed(1, 1, many), topics=3)
    assert [*numbers.sent] == [("", "t0"), ("", "t1"), ("", "t2"), ("", OTHER_TOPICS)]
    assert sum(each.messages for each in numbers.sent.values()) == 10_000
    assert len(numbers._sent) <= 30, "a topic for each row must not fill the memory"


def test_receipts_of_one_run_after_the_other_add_up() -> None:
    numbers = seen(Confirmed(LSN(1), 0, 5), Confirmed(LSN(2), 0, 8), STREAMING, Confirmed(LSN(3), 0, 2))
    assert samples(numbers, "walrelay_published_messages_total") == {(): 10}


def test_a_distribution_has_every_value_once() -> None:
    numbers = seen(*(Settled(seconds, 0.0) for seconds in (0.001, 0.002, 1000.0)))
    buckets = samples(numbers, "walrelay_publish_latency_seconds_bucket")
    assert (buckets["0.001",], buckets["0.0025",], buckets["300.0",], buckets["+Inf",]) == (1, 2, 2, 3)
    assert samples(numbers, "walrelay_publish_latency_seconds_sum") == {(): pytest.approx(1000.003)}


def test_back_pressure_adds_up() -> None:
    assert samples(seen(WaitedForRoom(0.25), WaitedForRoom(0.5)), "walrelay_back_pressure_seconds_total") == {(): 0.75}


def test_an_alias_is_the_same_metric_under_another_name() -> None:
    text, _ = Exposition(lambda: [view(seen())], {"outbox_backlog": "walrelay_lag_bytes"}).text("")
    assert 'outbox_backlog{relay="r",slot="s"} 0.0' in text.decode()


def test_every_metric_is_in_the_docs_with_its_unit_and_meaning() -> None:
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    for each in INSTRUMENTS:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        assert f"| `{each.name}` | {each.kind} | {labels} | {each.meaning} |" in page


def test_a_relay_that_has_nothing_to_do_is_ready() -> None:
    quiet = told(seen(STREAMING), after=STALL - 1)
    assert (quiet.ready, quiet.alive, quiet.started, quiet.waits_for) == (True, True, True, "nobody")


def test_a_relay_that_begins_is_not_ready_and_one_that_does_not_end_to_begin_is_not_alive() -> None:
    begins = told(seen(), after=1)
    assert (begins.ready, begins.alive, begins.started) == (False, True, False)
    assert not told(seen(), after=STALL + 1).alive


def test_a_loop_that_does_not_turn_is_not_alive() -> None:
    hangs = told(seen(STREAMING), after=STALL + 1)
    assert (hangs.ready, hangs.alive, hangs.waits_for) == (False, False, "relay")


def test_a_sink_that_acknowledges_nothing_is_not_ready_but_alive() -> None:
    numbers = seen(STREAMING, Relayed(1, 1, [message("a")], [1], 1), Stalled(5.0, 1, "away"))
    numbers.settled_at -= STALL + 1
    stalled = told(numbers)
    assert (stalled.ready, stalled.alive, stalled.waits_for) == (False, True, "sink")
    assert stalled.why == "1 messages wait: away"
    numbers.saw(Resumed(6.0))
    numbers.saw(Confirmed(LSN(2), 0, 1))
    assert told(numbers).ready


def test_a_slot_with_wal_to_read_that_does_not_move_is_not_ready() -> None:
    behind = FIGURES._replace(lag_bytes=100)
    leads, waits = seen(STREAMING), seen(StandingBy("s"))
    leads.settled_at -= STALL + 1
    moved = leads.turned_at - STALL - 1
    assert told(leads, figures=behind, unmoved_since=moved).waits_for == "postgres"
    assert told(waits, figures=behind, unmoved_since=moved - 1).waits_for == "leader"
    assert told(waits, figures=FIGURES, unmoved_since=moved - 1).ready


@pytest.mark.parametrize(
    ("error", "side"), [("Disconnected", "postgres"), ("NotConnected", "postgres"), ("Retryable", "sink")]
)
def test_an_error_that_is_retried_says_which_side_it_is(error: str, side: str) -> None:
    retries = told(seen(STREAMING, Retrying("down", 1, 0.2, False, error)))
    assert (retries.ready, retries.alive, retries.waits_for, retries.why) == (False, True, side, "down")


def test_a_slot_that_another_process_holds_is_waited_for() -> None:
    assert told(seen(Retrying("held", 1, 0.2, False, "Waiting"))).ready


def test_what_no_retry_cures_is_not_ready_and_says_what_to_do() -> None:
    ended = told(seen(EndedFatally(Refused("no", hint="do"))))
    assert (ended.ready, ended.alive, ended.waits_for, ended.hint) == (False, True, "policy", "do")
    assert told(seen(EndedFatally(Fatal("no")))).waits_for == "operator"


def test_a_lag_is_told_since_when() -> None:
    assert seen(Behind(1_500_000)).behind_since == 1.5
    assert seen(Behind(1_500_000), Behind(None)).behind_since is None
