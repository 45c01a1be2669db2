"""A hosted sink whose connection breaks at each step: nothing is lost, the order of each key is kept, no run ends."""

from random import Random

import pytest

from tests.simulation.hosted import BREAKS, live, without_pauses
from walrelay.errors import WalrelayError
from walrelay.sinks.hosting import HostedSink, Sending

_STEPS = 60


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)


@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("ordered", [False, True], ids=["lanes", "no lanes"])
def test_a_connection_that_breaks_at_any_step_loses_and_reorders_nothing(kind: str, *, ordered: bool) -> None:
    for step in range(0, _STEPS, 1 if kind != "silent" else 6):
        live(step, {step: kind}, ordered=ordered)


@pytest.mark.parametrize("ordered", [False, True], ids=["lanes", "no lanes"])
def test_connections_that_break_again_and_again_lose_and_reorder_nothing(*, ordered: bool) -> None:
    for seed in range(60):
        random = Random(seed)
        kinds = [kind for kind in BREAKS if kind != "silent"]
        at = {random.randrange(200): random.choice(kinds) for _ in range(random.randint(1, 12))}
        live(seed, at, ordered=ordered)


class _HearsOldConnections(HostedSink):
    """An answer of a connection that was given up counts."""

    def _begin_again(self, why: WalrelayError) -> None:
        before = [*self._in_flight]
        super()._begin_again(why)
        for old, new in zip(before, self._in_flight, strict=False):
            old._sink = _Forwarding(self, new)  # type: ignore[assignment]


class _Forwarding:
    def __init__(self, sink: HostedSink, sending: Sending) -> None:
        self._owner, self._sending = sink, sending

    def settle(self, sending: Sending) -> None:
        self._owner.settle(self._sending)

    def put_off(self, sending: Sending, why: str) -> None:
        self._owner.put_off(self._sending, why)

    def fail(self, why: WalrelayError) -> None:
        self._owner.fail(why)


class _ReversesWhatItSendsAgain(HostedSink):
    def _begin_again(self, why: WalrelayError) -> None:
        super()._begin_again(why)
        self._in_flight = dict.fromkeys(reversed(self._in_flight))


class _LetsTheNextOfTheLaneOvertake(HostedSink):
    def put_off(self, sending: Sending, why: str) -> None:
        super().put_off(sending, why)
        if self._lane_of is not None and (following := self._lanes.leave(sending.lane)):
            self._send(Sending(self, sending.lane, following))


class _DropsWhatIsNotTakenNow(HostedSink):
    def put_off(self, sending: Sending, why: str) -> None:
        super().put_off(sending, why)
        self._put_off.clear()


class _ForgetsWhatWasOnItsWay(HostedSink):
    def _begin_again(self, why: WalrelayError) -> None:
        super()._begin_again(why)
        self._in_flight.clear()


class _EndsWithItsConnection(HostedSink):
    def _begin_again(self, why: WalrelayError) -> None:
        self._failure = why


@pytest.mark.parametrize(
    ("mutant", "ordered"),
    [
        (_HearsOldConnections, False),
        (_ReversesWhatItSendsAgain, True),
        (_LetsTheNextOfTheLaneOvertake, False),
        (_DropsWhatIsNotTakenNow, False),
        (_ForgetsWhatWasOnItsWay, False),
        (_EndsWithItsConnection, False),
    ],
)
def test_a_sink_that_is_broken_in_one_place_is_caught(mutant: type[HostedSink], *, ordered: bool) -> None:
    for seed in range(40):
        random = Random(seed)
        at = {random.randrange(60): random.choice(("late", "lost", "answers_lost")) for _ in range(4)}
        try:
            live(seed, at, ordered=ordered, sink_type=mutant)
        except (AssertionError, WalrelayError, KeyError):
            return
    raise AssertionError("nothing was noticed")
