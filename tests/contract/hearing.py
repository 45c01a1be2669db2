"""What a sink says, for tests that wait for it."""

from collections.abc import Callable

from tests.servers.waiting import wait_until
from walrelay.model import Receipt, Refusal
from walrelay.publish import Sink


def told(refusal: Refusal) -> tuple[str, str, bool]:
    return refusal.error, refusal.scope, refusal.ends


def pumped_until(sink: Sink, condition: Callable[[], object], what: str) -> None:
    """Asks the sink for receipts meanwhile."""
    wait_until(lambda: (all(isinstance(each, Receipt) for each in sink.receipts(0.05)), condition())[1], 30, what)
