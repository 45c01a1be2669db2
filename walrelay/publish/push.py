"""When to push out what a sink holds back for batching: large batches under load, no waiting when it is quiet."""

from walrelay.publish.contract import Sink

_FEW = 64  # messages
_GAP = 0.001  # seconds
_PATIENCE = 0.001  # seconds a push may wait for receipts, which as a rule come sooner
_TRIES = 3  # a push works if the client library's thread wakes up while it lasts, which a busy machine may prevent


class Push:
    """A sink batches, and while frames keep coming that is right; once the stream is drained it is only latency.

    A few messages are pushed out as soon as no frame is ready, many (the stream is fast) after a gap of a millisecond.
    A push is repeated, without a gap, until all messages are settled: a client library whose thread wakes up between
    two pushes sends nothing.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._unpushed = 0  # messages since the last push
        self._tries = 0

    def handed_over(self, messages: int) -> None:
        """The sink took so many messages."""
        self._unpushed += messages
        self._tries = _TRIES if self._unpushed else self._tries

    def settled(self) -> None:
        """Every message has its receipt: none is held back."""
        self._unpushed = self._tries = 0

    def wait(self, otherwise: float) -> float:
        """How long to wait for the next frame before `drained` is called; `otherwise` if nothing is held back."""
        if self._tries == 0:
            return otherwise
        return 0.0 if self._unpushed <= _FEW else _GAP

    def drained(self) -> None:
        """No record came within `wait`."""
        if self._tries:
            self._sink.flush(_PATIENCE)
            self._unpushed = 0
            self._tries -= 1
