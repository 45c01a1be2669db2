"""What the numbers behind /metrics cost a relay, in CPU time: `python -m tests.bench.numbers`."""

import sys
from collections.abc import Callable
from statistics import median
from time import process_time

from walrelay.model import Message
from walrelay.observe import Acknowledged, Observers, Relayed
from walrelay.observe.numbers import RelayNumbers
from walrelay.telemetry.instruments import RelayView
from walrelay.telemetry.prometheus import Exposition

ROUNDS = 5


def microseconds(call: Callable[[], object], times: int) -> str:
    """The median of some rounds, and how far they lie apart."""
    found = []
    for _ in range(ROUNDS):
        began = process_time()
        for _ in range(times):
            call()
        found.append((process_time() - began) / times * 1e6)
    return f"{median(found):,.2f} us ({min(found):,.2f} to {max(found):,.2f})"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    numbers = RelayNumbers("slot")
    observer = Observers(numbers)
    messages = [Message("orders", b"key", b"x" * 200, [], 0) for _ in range(1_000)]
    view = RelayView("relay", numbers, {"": "kafka"}, None, True)
    one, hundred = (Exposition(lambda count=count: [view] * count, {}) for count in (1, 100))  # type: ignore[misc]
    for size in (1, 10, 1_000):
        turn = Relayed(size, size, messages[:size], [size], 0)
        told = microseconds(lambda turn=turn: observer.saw(turn), 20_000 // size + 100)  # type: ignore[misc]
        say(f"a turn of {size:>5} messages  {told}")
    say(f"receipts of a turn       {microseconds(lambda: observer.saw(Acknowledged(10, 0)), 20_000)}")
    say(f"a scrape of one relay    {microseconds(lambda: one.text(''), 50)}")
    say(f"a scrape of 100 relays   {microseconds(lambda: hundred.text(''), 3)}")


if __name__ == "__main__":
    main()
