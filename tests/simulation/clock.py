"""Time that passes only when somebody waits."""


class Clock:
    """Stands in for `time.monotonic`."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        """`seconds` pass at once."""
        self.now += seconds
