"""The run itself: every round, peer, variant and measurement, each noted as soon as it is there."""

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.peers.bench import Bench, Place, place
from tests.bench.peers.contract import NotRun, Peer, Variant
from tests.bench.peers.measure import Failed, Found, Plan
from tests.bench.peers.measure_drain import drain
from tests.bench.peers.measure_kill import kill
from tests.bench.peers.measure_latency import latency
from tests.bench.peers.results import Result, Run
from tests.bench.peers.running import last_lines

MEASUREMENTS: dict[str, Callable[[Bench, Place, Plan], Found]] = {"drain": drain, "latency": latency, "kill": kill}


@dataclass(frozen=True)
class Choice:
    """What is run."""

    peers: Sequence[Peer]
    variants: Sequence[Variant]
    measurements: Sequence[str]
    rounds: int


def carry_out(bench: Bench, choice: Choice, plan: Plan, run: Run, file: Path) -> None:
    """Adds every result to the run and writes that to the file: one that is cut off keeps what it has."""
    for result in _results(bench, choice, plan):
        run.results.append(result)
        run.write(file)
        say(_line(result))


def say(text: str) -> None:
    """Progress."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _results(bench: Bench, choice: Choice, plan: Plan) -> Iterator[Result]:
    installed: list[tuple[Peer, str]] = []
    for peer in choice.peers:
        say(f"{peer.name}: installing")
        try:
            installed.append((peer, peer.install(bench.cache)))
        except Exception as error:  # whatever is wrong with one peer must not end the run
            yield Result(peer.name, "", reason=_reason(error))
    # A round is every peer once: whatever else the machine is busy with meets them all.
    for number in range(1, choice.rounds + 1):
        for peer, version in installed:
            for variant in choice.variants:
                for measurement in choice.measurements:
                    say(f"{peer.name}, {variant}, {measurement}")
                    blank = Result(peer.name, version, variant, measurement, number)
                    yield _measured(bench, peer, variant, plan, blank)


def _measured(bench: Bench, peer: Peer, variant: Variant, plan: Plan, blank: Result) -> Result:
    log = bench.out / "logs" / f"{peer.name}-{variant}-{blank.measurement}-{blank.round}.log"
    try:
        with place(bench, peer, variant, log) as where:
            found = MEASUREMENTS[blank.measurement](bench, where, plan)
    except NotRun as error:
        return replace(blank, measurement="", reason=str(error))
    except Exception as error:  # whatever is wrong with one peer must not end the run
        return replace(blank, reason=_reason(error), log=last_lines(log))
    return replace(blank, values=found.values, notes=found.notes)


def _reason(error: Exception) -> str:
    if isinstance(error, NotRun | Failed):
        return str(error)
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"


def _line(result: Result) -> str:
    found = ", ".join(f"{name} {value:,.4g}" for name, value in result.values.items())
    return "  " + "; ".join(filter(None, (found or f"not measured: {result.reason}", *result.notes)))
