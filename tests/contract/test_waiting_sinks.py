"""A broker that is away at first, or listens and says nothing, ends no sink: what waits for it arrives in order."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from time import monotonic
from typing import Any

import pytest

from tests.brokers.breakable import ServerCase
from tests.servers.waiting import wait_until
from walrelay.publish import Sink
from walrelay.testing import held, message, numbers, receipts

_COUNT = 800
_KEYS = "abcdefgh"

CASES = [
    "webhook",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("eventbridge", "kinesis", "pubsub", "servicebus", "sns", "sqs")
    ),
]


def relayed(sink: Sink, case: Any, settled: Counter[int], until: Callable[[], object], what: str) -> None:
    """Publishes all in order, as far as there is room, until that is so; the next number is that of `settled` 1."""

    def done() -> object:
        while settled[1] < _COUNT and sink.publish(message(case, settled[1], key=_KEYS[settled[1] % 8]), 0):
            settled[1] += 1
        settled[0] += receipts(sink, 0.05)[0]
        return until()

    wait_until(done, 120, what)


def check(case: Any) -> None:
    """EventBridge has no order."""
    arrived = case.arrived()
    for index, key in enumerate(_KEYS):
        found = [*dict.fromkeys(numbers(arrived, key))]
        expected = list(range(index, _COUNT, 8))
        assert (sorted(found) if getattr(case, "operation", "") == "PutEvents" else found) == expected


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_a_broker_that_says_nothing_ends_no_sink(case: ServerCase) -> None:
    settled: Counter[int] = Counter()
    with closing(case.open(room=500, request_timeout=2)) as sink:
        relayed(sink, case, settled, lambda: settled[0] >= 100, "the first receipts")
        with held(case):
            relayed(sink, case, settled, sink.trouble, "trouble")
            later = monotonic() + 5
            relayed(sink, case, settled, lambda: monotonic() > later, "some seconds")
            assert sink.trouble()
            assert settled[0] < _COUNT
        relayed(sink, case, settled, lambda: settled[0] >= _COUNT, "all receipts")
        wait_until(lambda: not receipts(sink, 0.05) and not sink.trouble(), 10, "no trouble")
    assert settled[0] == _COUNT
    check(case)


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_a_broker_that_is_away_at_first_ends_no_sink(case: ServerCase) -> None:
    settled: Counter[int] = Counter()
    case.kill()
    try:
        with closing(case.open(room=500, request_timeout=5)) as sink:
            relayed(sink, case, settled, sink.trouble, "trouble")
            later = monotonic() + 3
            relayed(sink, case, settled, lambda: monotonic() > later, "some seconds")
            assert sink.trouble()
            assert settled[0] == 0
            case.start()
            relayed(sink, case, settled, lambda: settled[0] >= _COUNT, "all receipts")
            wait_until(lambda: not receipts(sink, 0.05) and not sink.trouble(), 10, "no trouble")
    finally:
        case.start()
    assert settled[0] == _COUNT
    check(case)
