"""The readings, in rounds."""

from collections.abc import Mapping

from walrelay.lab.bench.screen import Screen
from walrelay.lab.bench.throughput.medians import Reading, complete
from walrelay.lab.bench.throughput.readers import Place, Reader
from walrelay.lab.bench.throughput.request import Wish, order


def taken(wish: Wish, readers: Mapping[str, Reader], place: Place, screen: Screen) -> Mapping[str, list[Reading]]:
    """Interleaved, so that a noisy neighbour meets everyone."""
    readings: dict[str, list[Reading]] = {name: [] for name in readers}
    for number in range(wish.rounds):
        where = f"round {number + 1}/{wish.rounds}"
        for name in order(list(readers), number):
            with screen.console.status(f"{where}  {name}", refresh_per_second=2):
                reading = complete(name, readers[name].read(place), wish.expected(name))
            readings[name].append(reading)
            screen.say(f" {where}  {name:<12}  {reading.events / reading.seconds:>9,.0f} events/s")
    return readings
