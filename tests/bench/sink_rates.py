"""How many messages a second a sink makes durable, in the order of each key: `pytest -s -p no:logging
tests/bench/sink_rates.py`.

`-k rabbitmq` for one. Each round has a new sink; messages have 500 bytes and three headers. No PostgreSQL is involved.
"""

import sys
from contextlib import closing
from statistics import median
from time import monotonic, process_time

import pytest

from tests.contract.conftest import BROKERS, case
from walrelay.model import Message, Receipt
from walrelay.testing import Case

__all__ = ["case"]  # a fixture

_ROUNDS = 3
_SECONDS = 4  # about, of a round


@pytest.mark.parametrize("keys", [1_000, 100, 16, 1])
@pytest.mark.parametrize("case", [*BROKERS], indirect=True)
def test_rate(case: Case, keys: int, request: pytest.FixtureRequest) -> None:
    rounds = [_round(case, keys) for _ in range(_ROUNDS)]
    rates = sorted(rate for rate, _ in rounds)
    cpu = median(cpu for _, cpu in rounds)
    name = request.node.callspec.id
    sys.stdout.write(
        f"\n{name}: {median(rates):,.0f}/s ({rates[0]:,.0f} to {rates[-1]:,.0f}), {cpu:.0f} us of CPU a message\n"
    )


def _round(case: Case, keys: int) -> tuple[float, float]:
    """Messages a second, and microseconds of this process's CPU for each."""
    published = durable = 0
    began, used = monotonic(), process_time()
    with closing(case.open(room=2_000)) as sink:
        while monotonic() < began + _SECONDS or durable < published:
            while monotonic() < began + _SECONDS and sink.publish(_message(case, published, keys), 0):
                published += 1
            for receipt in sink.receipts(0.05):
                assert isinstance(receipt, Receipt), receipt
                durable += receipt.messages
    return durable / (monotonic() - began), (process_time() - used) / durable * 1e6


def _message(case: Case, number: int, keys: int) -> Message:
    headers: list[tuple[str, bytes | None]] = [("id", b"%d" % number), ("position", b"0/1:0"), ("type", b"OrderPlaced")]
    return Message(case.topic, b"%d" % (number % keys), b"x" * 500, headers, 1_700_000_000_000)
