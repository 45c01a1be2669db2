"""Whether a relay is said to be well, and whom it waits for."""

from time import monotonic

import pytest

from tests.unit.telemetry.relays import FIGURES, STALL, STREAMING, message, seen, told, view
from walrelay.errors import Fatal, Refused
from walrelay.lsn import LSN
from walrelay.observe import (
    Acknowledged,
    Confirmed,
    EndedFatally,
    GivingUp,
    Relayed,
    Resumed,
    Retrying,
    Stalled,
    StandingBy,
    Stopped,
    Stopping,
    WaitedForRegistry,
    WaitedForRoom,
)
from walrelay.telemetry.health import health
from walrelay.telemetry.instruments import RelayView


def test_a_relay_that_has_nothing_to_do_is_ready() -> None:
    quiet = told(seen(STREAMING), after=STALL - 1)
    assert (quiet.ready, quiet.alive, quiet.started, quiet.waits_for) == (True, True, True, "nobody")


def test_a_relay_that_begins_is_not_ready_and_one_that_does_not_end_to_begin_is_not_alive() -> None:
    begins = told(seen(), after=1)
    assert (begins.ready, begins.alive, begins.started) == (False, True, False)
    assert told(seen(), after=STALL + 1).alive, "it may wait for servers"
    assert not told(seen(), after=301).alive


def test_a_loop_that_does_not_turn_is_not_alive() -> None:
    hangs = told(seen(STREAMING), after=STALL + 1)
    assert (hangs.ready, hangs.alive, hangs.waits_for) == (False, False, "relay")


def test_a_sink_that_acknowledges_nothing_is_not_ready_but_alive() -> None:
    numbers = seen(STREAMING, Relayed(1, 1, [message("a")], [1], 1), Stalled(STALL + 1, 1, "away"))
    stalled = told(numbers)
    assert (stalled.ready, stalled.alive, stalled.waits_for) == (False, True, "sink")
    assert stalled.why == "1 messages wait: away"
    numbers.saw(Resumed(6.0))
    numbers.saw(Confirmed(LSN(2), 0))
    assert told(numbers).ready


def test_a_stall_is_red_over_runs_and_counts_from_the_last_progress() -> None:
    away = Stalled(STALL + 1, 0, "away", STALL + 1)
    numbers = seen(STREAMING, away, Retrying("away", 1, 0.2, False, "Retryable"), STREAMING)
    again = told(numbers)
    assert (again.state, again.ready, again.waits_for, again.why) == ("waiting", False, "sink", "away")
    assert again.seconds > STALL
    numbers.saw(Stalled(1.0, 1, "audit: away", STALL + 9))
    assert told(numbers).ready, "other sinks make progress"
    numbers.saw(Resumed(STALL + 9))
    assert (told(numbers).state, told(numbers).why) == ("streaming", "nothing to read")


def test_a_slot_with_wal_to_read_that_does_not_move_is_not_ready() -> None:
    behind = FIGURES._replace(lag_bytes=100)
    leads, waits = seen(STREAMING), seen(StandingBy("s"))
    leads.settled_at -= STALL + 1
    leads.read_at -= STALL + 1
    moved = leads.turned_at - STALL - 1
    assert told(leads, figures=behind, unmoved_since=moved).waits_for == "postgres"
    assert told(waits, figures=behind, unmoved_since=moved - 1).waits_for == "leader"
    assert told(waits, figures=FIGURES, unmoved_since=moved - 1).ready


@pytest.mark.parametrize(
    ("error", "side"),
    [
        ("Disconnected", "postgres"),
        ("NotConnected", "postgres"),
        ("NotServing", "postgres"),
        ("Retryable", "sink"),
        ("NoRoom", "sink"),
        ("RegistryAway", "registry"),
        ("NotStarted", "operator"),
    ],
)
def test_an_error_that_is_retried_says_which_side_it_is(error: str, side: str) -> None:
    retries = told(seen(STREAMING, Retrying("down", 1, 0.2, False, error)))
    assert (retries.ready, retries.alive, retries.waits_for, retries.why) == (False, True, side, "down")


def test_a_slot_that_another_process_holds_is_waited_for() -> None:
    numbers = seen(Retrying("held", 1, 0.2, False, "Waiting"))
    assert told(numbers).ready
    numbers.state_since -= STALL + 1
    assert (told(numbers).ready, told(numbers).waits_for) == (False, "leader")


def test_what_no_retry_cures_is_not_ready_and_says_what_to_do() -> None:
    ended = told(seen(EndedFatally(Refused("no", hint="do"))))
    assert (ended.ready, ended.alive, ended.waits_for, ended.hint) == (False, True, "policy", "do")
    assert told(seen(EndedFatally(Fatal("no")))).waits_for == "operator"


def later(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the numbers' clock is ahead."""
    monkeypatch.setattr("walrelay.observe.numbers.monotonic", lambda: monotonic() + seconds)


def test_a_transaction_of_many_rows_is_no_stall_as_long_as_it_gets_receipts(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of its rows can be confirmed before the last one."""
    numbers = seen(STREAMING, Relayed(1, 1, [message("a")], [], 1))
    behind = FIGURES._replace(lag_bytes=100)
    since = monotonic()
    for minutes in range(1, 10):
        later(60 * minutes + 1, monkeypatch)
        numbers.saw(Relayed(1_000, 1_000, [message("a")], [], 500))
        numbers.saw(Acknowledged(1_000, 300))
        assert told(numbers, figures=behind, unmoved_since=since).ready


def test_a_record_that_has_no_room_makes_the_sink_red_and_not_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = seen(STREAMING)
    for seconds in range(100):
        later(float(seconds), monkeypatch)
        numbers.saw(WaitedForRoom(1.0))
    full = told(numbers)
    assert (full.waits_for, full.ready, full.alive) == ("sink", False, True)
    assert numbers.back_pressure == 100
    numbers.saw(Acknowledged(1, 0))
    assert told(numbers).ready


def test_a_registry_that_is_away_is_red_until_the_record_is_relayed(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = seen(STREAMING)
    for seconds in range(0, 100, 10):
        later(float(seconds), monkeypatch)
        numbers.saw(WaitedForRegistry(10.0, "registry away", "start it"))
    red = told(numbers, figures=FIGURES._replace(lag_bytes=100), unmoved_since=numbers.turned_at - 90)
    assert (red.waits_for, red.why, red.hint, red.alive) == ("registry", "registry away", "start it", True)
    numbers.saw(Relayed(1, 1, [message("a")], [1], 1))
    assert told(numbers).ready


def test_a_relay_that_fails_again_is_not_green_because_the_log_does_not_repeat_it() -> None:
    first = Retrying("down", 1, 0.2, False, "Retryable")
    numbers = seen(STREAMING, first, STREAMING, first._replace(attempt=2, again=True))
    assert (told(numbers).state, numbers.leads, numbers.retries["Retryable"]) == ("retrying", False, 2)


def test_a_relay_that_gave_up_its_lead_for_another_instance_stands_by() -> None:
    numbers = seen(STREAMING, GivingUp("s", "its share"), Stopping(0, 5.0), Stopped(LSN(2), 0), StandingBy("s"))
    assert (told(numbers).ready, told(numbers).waits_for) == (True, "nobody")


def test_an_instance_that_stands_by_is_red_when_the_server_gives_no_answer() -> None:
    numbers = seen(StandingBy("s"))
    silent = RelayView("r", numbers, {}, None, False, answered_at=monotonic() - STALL - 1)
    assert health(silent, monotonic(), STALL).waits_for == "postgres"
    assert health(silent._replace(answered_at=monotonic()), monotonic(), STALL).ready
    lost = silent._replace(figures=FIGURES._replace(wal_status="lost"), postgres_up=True, answered_at=monotonic())
    assert health(lost, monotonic(), STALL).hint == "walrelay recover --dry-run"


def test_a_stop_may_take_long_as_long_as_it_goes_on() -> None:
    numbers = seen(STREAMING, Stopping(5, 900.0))
    numbers.state_since -= 800
    assert told(numbers).alive
    assert numbers.leads
    numbers.turned_at -= 800
    assert not health(view(numbers), monotonic(), STALL).alive


def test_an_error_that_is_told_again_and_again_happened_once() -> None:
    numbers = seen(EndedFatally(Fatal("no")))
    assert numbers.last_error is not None
    at = numbers.last_error.at
    numbers.saw(EndedFatally(Fatal("no"), 1))
    assert numbers.last_error.at == at


def test_what_was_in_flight_is_in_flight_no_more_when_the_run_is_over() -> None:
    numbers = seen(STREAMING, Relayed(1, 1, [message("a")], [1], 1), Retrying("down", 1, 0.2, False, "Retryable"))
    assert numbers.in_flight == 0
