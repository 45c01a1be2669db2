"""What a relay reports, and when: nothing without a reason, or each report would be the reason for the next."""

from time import monotonic, time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from walrelay.control.relay import RelayControl
from walrelay.control.table import Pause
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.observe import (
    Acknowledged,
    Behind,
    Confirmed,
    EndedFatally,
    Happening,
    Noticed,
    Paused,
    Relayed,
    Resumed,
    Retrying,
    Stalled,
    StandingBy,
    Stopped,
    Streaming,
    Turned,
)
from walrelay.wiring import EventOptions, Wiring

STREAMING = Streaming("s", LSN(100), "pgoutput")


class Noted:
    def __init__(self) -> None:
        self.seen: list[Happening] = []

    def saw(self, happening: Happening) -> None:
        self.seen.append(happening)


@pytest.fixture
def woken() -> list[RelayControl]:
    return []


@pytest.fixture
def relay(woken: list[RelayControl]) -> RelayControl:
    wiring = SimpleNamespace(slot="s", publication=None, events=EventOptions(), sink=SimpleNamespace(kinds={"": "x"}))
    made = RelayControl("orders", cast(Wiring, wiring), woken.append)
    made.lead()
    woken.clear()
    return made


def written(relay: RelayControl) -> dict[str, Any]:
    report, number = relay.report()
    relay.reported(number)
    return report._asdict()


def test_a_change_of_state_is_reported_at_once_and_wakes(relay: RelayControl, woken: list[RelayControl]) -> None:
    relay.saw(STREAMING)
    assert woken == [relay]
    assert relay.due(monotonic()) == 0
    report = written(relay)
    assert (report["slot"], report["name"], report["state"], report["position"]) == ("s", "orders", "streaming", 100)
    assert relay.due(monotonic()) is None


def test_idle_progress_is_no_reason_and_receipts_are_one_after_ten_seconds(
    relay: RelayControl, woken: list[RelayControl]
) -> None:
    relay.saw(STREAMING)
    written(relay)
    woken.clear()
    for number in range(50):
        relay.saw(Turned())
        relay.saw(Confirmed(LSN(200 + number), 0))
    assert (woken, relay.due(monotonic())) == ([], None)
    for number in range(50):
        relay.saw(Relayed(1, 1))
        relay.saw(Acknowledged(1, 0))
        relay.saw(Confirmed(LSN(300 + number), 0))
    assert woken == [relay]
    due = relay.due(monotonic())
    assert due is not None
    assert 5 < due <= 10
    assert written(relay)["position"] == 349


def test_while_an_event_waits_its_lag_is_reported_again(relay: RelayControl) -> None:
    relay.saw(STREAMING)
    relay.saw(Behind(1_000_000))
    assert written(relay)["waiting_since"] == 1_000_000
    assert relay.due(monotonic()) is not None
    relay.saw(Behind(None))
    assert written(relay)["waiting_since"] is None
    assert relay.due(monotonic()) is None


@pytest.mark.parametrize(
    ("happening", "state", "error"),
    [
        (Paused("s", "by a", ""), "paused", ""),
        (Retrying("down\0", 1, 0.1, False), "retrying", "down"),
        (Stopped(LSN(1), 0), "stopped", ""),
        (EndedFatally(Fatal("no")), "failed", "no"),
        (Stalled(5.5, 1, "audit: away", 2.0), "waiting", "audit: away"),
        (StandingBy("s"), "streaming", ""),
    ],
)
def test_what_happens_is_a_state(relay: RelayControl, happening: Happening, state: str, error: str) -> None:
    relay.saw(STREAMING)
    relay.saw(happening)
    report = written(relay)
    assert (report["state"], report["last_error"]) == (state, error)
    assert (report["last_error_at"] > 0) == bool(error)


def test_a_sink_that_waits_keeps_its_state_over_runs_until_it_goes_on(relay: RelayControl) -> None:
    relay.saw(STREAMING)
    relay.saw(Stalled(100.0, 1, "away"))
    first = written(relay)
    assert (first["state"], first["errors"]) == ("waiting", 1)
    assert first["last_error_at"] == pytest.approx(time() - 100, abs=5)
    relay.saw(Retrying("away", 1, 0.1, False))
    assert written(relay)["state"] == "retrying"
    relay.saw(STREAMING)
    relay.saw(Stalled(110.0, 1, "away"))
    assert written(relay)["state"] == "waiting"
    relay.saw(Resumed(111.0))
    last = written(relay)
    assert (last["state"], last["last_error"], last["errors"]) == ("streaming", "away", 2)


def test_a_relay_that_leads_again_does_not_report_how_its_last_lead_ended(relay: RelayControl) -> None:
    relay.saw(STREAMING)
    relay.saw(Stopped(LSN(1), 0))
    relay.leave()
    assert written(relay)["state"] == "stopped"
    relay.lead()
    relay.connected()
    assert written(relay)["state"] == "starting"


def test_only_who_leads_writes_over_the_report_of_another(relay: RelayControl) -> None:
    relay.saw(STREAMING)
    assert relay.report()[0].led
    written(relay)
    relay.leave()
    relay.saw(Retrying("down", 1, 0.1, False))
    assert not relay.report()[0].led


def test_an_error_while_it_led_is_its_own_to_report(relay: RelayControl) -> None:
    relay.leave("there is no slot")
    report, _ = relay.report()
    assert (report.state, report.last_error, report.leads, report.led) == ("failed", "there is no slot", False, True)


def test_another_lead_of_a_process_has_another_name_and_has_confirmed_nothing(relay: RelayControl) -> None:
    relay.saw(STREAMING)
    relay.leave("the slot is gone")
    first, _ = relay.report()
    relay.lead()
    second, _ = relay.report()
    assert first.position is not None
    assert (second.state, second.position) == ("starting", None)
    assert first.lead != second.lead


def test_a_lead_that_reads_nothing_does_not_name_where_an_earlier_one_of_its_process_got(relay: RelayControl) -> None:
    """Another instance may have led in between, and got further."""
    relay.saw(STREAMING)
    relay.saw(Retrying("the connection broke", 1, 0.1, False))
    relay.leave()
    relay.lead()
    assert written(relay)["position"] is None
    relay.saw(Paused("s", "by ops", "", None))
    relay.saw(Stopped(LSN(100), 0))  # which this process remembers
    assert (written(relay)["state"], written(relay)["position"]) == ("stopped", None)


def test_a_table_that_cannot_be_written_is_told_once_and_written_much_later(relay: RelayControl) -> None:
    relay.observer = noted = Noted()
    relay.saw(STREAMING)
    for _ in range(3):
        relay.report()
        relay.failed("no right", 60)
        relay.saw(Retrying("down", 1, 0.1, False))
        relay.saw(STREAMING)
    assert [type(each) for each in noted.seen] == [Noticed]
    due = relay.due(monotonic())
    assert due is not None
    assert due > 30
    relay.connected()
    due = relay.due(monotonic())
    assert due is not None
    assert due <= 1, "a new connection may lead to another server"


@pytest.mark.parametrize("leads", [True, False])
def test_a_report_that_was_not_written_stays_due(relay: RelayControl, leads: bool) -> None:
    relay.saw(STREAMING)
    written(relay)
    relay.saw(EndedFatally(Fatal("no")))
    if not leads:
        relay.leave("no")
    relay.report()
    relay.failed("the connection is closed", 0)
    assert relay.pending
    assert relay.due(monotonic()) is not None
    report, number = relay.report()
    assert (report.state, report.led) == ("failed", True)
    relay.saw(Stopped(LSN(1), 0))
    relay.reported(number)
    assert relay.pending, "what changed while it was written is not in the table"
    assert written(relay)["state"] == "stopped"
    assert not relay.pending


def test_a_pause_that_is_over_here_is_not_obeyed_again(relay: RelayControl) -> None:
    pause = Pause("2026-11-23", "anna", left=10.0)
    relay.wish(pause)
    assert relay.pause == pause
    assert monotonic() < relay.ends_at < monotonic() + 11
    relay.end_pause(pause)
    relay.wish(pause)
    assert relay.pause is None
    relay.wish(later := pause._replace(at="2026-11-24"))
    assert relay.pause == later
    relay.end_pause(later)
    relay.wish(longer := later._replace(until="2026-11-25"))
    assert relay.pause == longer, "somebody prolonged it just as it ended"


def test_a_pause_says_who_and_why_and_how_it_ends() -> None:
    assert str(Pause("x", "anna")) == "by anna"
    whole = Pause("x", "anna", "upgrade", "12:00", 1.0, 10 * 2**30, drops_slot=True)
    assert str(whole) == "by anna: upgrade; until 12:00; when the slot retains 10.0 GB of WAL it is dropped"
