"""What a sink says, for tests that wait for it."""

from collections.abc import Callable

from tests.servers.waiting import wait_until
from walrelay.errors import Retryable, WalrelayError
from walrelay.model import Receipt, Refusal
from walrelay.publish import Sink


def refusal(sink: Sink) -> Refusal:
    """The next one; receipts that come before it do not count."""

    def found() -> Refusal | None:
        return next((each for each in sink.receipts(0.05) if isinstance(each, Refusal)), None)

    refused = wait_until(found, 30, "a refusal", interval=0)
    assert refused is not None
    return refused


def failure(sink: Sink, kind: type[WalrelayError] = Retryable) -> str:
    """Why the sink ends."""

    def failed() -> str:
        try:
            assert all(isinstance(each, Receipt) for each in sink.receipts(0.05))
        except kind as why:
            return str(why)
        return ""

    return wait_until(failed, 30, "a failure", interval=0)


def told(refusal: Refusal) -> tuple[str, str, bool]:
    return refusal.error, refusal.scope, refusal.ends


def pumped_until(sink: Sink, condition: Callable[[], object], what: str) -> None:
    """Asks the sink for receipts meanwhile."""
    wait_until(lambda: (all(isinstance(each, Receipt) for each in sink.receipts(0.05)), condition())[1], 30, what)
