"""What a sink says, for tests that wait for it."""

from collections.abc import Callable

from tests.servers.waiting import wait_until
from walrelay.errors import Retryable
from walrelay.model import Receipt, Refusal
from walrelay.publish import Sink


def told(refusal: Refusal) -> tuple[str, str, bool]:
    return refusal.error, refusal.scope, refusal.ends


def pumped_until(sink: Sink, condition: Callable[[], object], what: str) -> None:
    """Asks the sink for receipts meanwhile."""
    wait_until(lambda: (all(isinstance(each, Receipt) for each in sink.receipts(0.05)), condition())[1], 30, what)


def complaint(sink: Sink, text: str) -> str:
    """What it says, with that text in it: of its trouble, or as it ends."""
    said: list[str] = []

    def heard() -> bool:
        try:
            assert all(isinstance(each, Receipt) for each in sink.receipts(0.05))
            said.append(sink.trouble())
        except Retryable as why:
            said.append(str(why))
        return text in said[-1]

    wait_until(heard, 30, f"{text!r} to be said")
    return said[-1]
