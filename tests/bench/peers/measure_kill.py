"""kill -9 under load, then the same command at once: what is lost, repeated, out of order, and when it is back."""

from collections.abc import Iterator
from contextlib import ExitStack
from time import sleep, time

from tests.bench.peers.bench import Bench, Place
from tests.bench.peers.consumer import Arrivals, consuming
from tests.bench.peers.deliveries import Delivered, back_after, compare
from tests.bench.peers.measure import Failed, Found, Patience, Plan, Shortfall, remarks, wait_for_events, warm_up
from tests.bench.peers.running import running
from tests.bench.peers.workload import write_one
from tests.bench.peers.writer import LEAD, Task, Writer, writing

# Only a peer that misses something is waited for that long: an event is called lost when nothing came for two minutes.
_PATIENCE = Patience(first=120, silence=120, cap=600)

# A peer may find its slot still taken by its own dead connection, and leave. Whoever supervises it starts it again.
_STARTS = 5
_PAUSE = 1.0


def kill(bench: Bench, place: Place, plan: Plan) -> Found:
    """The writer goes on all the time."""
    with consuming(place.site.bootstrap_servers, place.site.topic, place.arrivals) as arrivals, ExitStack() as stack:
        writer, killed = _kill_under_load(place, arrivals, plan, stack)
        starts, short = _start_again(place, arrivals, _events(plan) + 1)
        commits = writer.finish()
    arrived = arrivals.events()
    delivered = compare([0, *(commit.number for commit in commits)], arrived)
    back = back_after(killed, {commit.number: commit.committed for commit in commits}, arrived)
    values: dict[str, float] = {
        "events": delivered.events,
        "duplicates": delivered.duplicates,
        "out_of_order": delivered.out_of_order,
        "starts": starts,
    }
    if not (short and short.still_coming):
        values["lost"] = delivered.lost
    if back is not None:
        values["back_after_seconds"] = back
    return Found(values, [*_notes(delivered, short, starts, back)])


def _kill_under_load(place: Place, arrivals: Arrivals, plan: Plan, stack: ExitStack) -> tuple[Writer, float]:
    """The writer, who goes on until the end of the stack, and when the peer was dead."""
    with running(place.command, place.log) as run:
        write_one(place.database, place.outbox, 0)
        warm_up(arrivals, run)
        task = Task(place.site.dsn, place.outbox.insert, 1, _events(plan), plan.kill_rate, begin=time() + LEAD)
        writer = stack.enter_context(writing(task))
        sleep(LEAD + plan.kill_after)
        if short := wait_for_events(arrivals, run, 2, Patience()):
            raise Failed(f"under load: {short.reason}")
        return writer, run.kill()


def _start_again(place: Place, arrivals: Arrivals, wanted: int) -> tuple[int, Shortfall | None]:
    """How often it had to be started, and what it still owes in the end."""
    starts = 0
    while True:
        starts += 1
        with running(place.command, place.log) as run:
            short = wait_for_events(arrivals, run, wanted, _PATIENCE)
            left = run.exit_code is not None
        if not short or not left or starts == _STARTS:
            return starts, short
        sleep(_PAUSE)


def _events(plan: Plan) -> int:
    return int(plan.kill_rate * plan.kill_seconds)


def _events_of(count: int) -> str:
    return "1 event" if count == 1 else f"{count:,} events"


def _notes(delivered: Delivered, short: Shortfall | None, starts: int, back: float | None) -> Iterator[str]:
    if starts > 1:
        yield f"it ended by itself and was started again, {starts} times in all"
    if short:
        yield f"{_events_of(delivered.lost)} did not arrive: {short.reason}"
    if back is None:
        yield "no event that was committed after the kill arrived"
    yield from remarks(delivered)
