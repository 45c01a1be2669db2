"""Commit to consumer at a steady rate, what the peer takes for it, and what it takes while there is nothing to do."""

from time import sleep, time

from tests.bench.peers.bench import Bench, Place
from tests.bench.peers.consumer import consuming
from tests.bench.peers.deliveries import compare, latencies
from tests.bench.peers.measure import Failed, Found, Patience, Plan, wait_for_events, warm_up
from tests.bench.peers.running import Running, running
from tests.bench.peers.workload import write_one
from tests.bench.peers.writer import LEAD, Task, writing

_WARMING = 0.1  # of the events: the first ones meet code that was not compiled yet, and are not counted


def latency(bench: Bench, place: Place, plan: Plan) -> Found:
    """One event wakes the peer up; then it is left alone for a while; then the writer begins."""
    events = int(plan.rate * plan.seconds)
    with (
        consuming(place.site.bootstrap_servers, place.site.topic, place.arrivals) as arrivals,
        running(place.command, place.log) as run,
    ):
        write_one(place.database, place.outbox, 0)
        warm_up(arrivals, run)
        idle_from = time()
        sleep(plan.idle_seconds)
        idle_to = time()
        begin = idle_to + LEAD
        task = Task(place.site.dsn, place.outbox.insert, first=1, events=events, rate=plan.rate, begin=begin)
        with writing(task) as writer:
            commits = writer.finish()
        short = wait_for_events(arrivals, run, events + 1, Patience(silence=30))
    arrived = arrivals.events()
    counted = {commit.number: commit.since for commit in commits[int(events * _WARMING) :]}
    if not counted.keys() & {event.number for event in arrived}:
        raise Failed(f"none of the counted events arrived: {short.reason if short else 'only those of the warm-up'}")
    found = latencies(counted, arrived)
    values = {
        "events": found.events,
        "p50_ms": found.p50,
        "p99_ms": found.p99,
        "max_ms": found.max,
        "cpu_per_thousand": _cpu(run, begin, max(event.at for event in arrived)) / (events / 1000),
        "idle_cpu_percent": 100 * _cpu(run, idle_from, idle_to) / (idle_to - idle_from),
        "peak_rss_mb": run.sampler.peak_rss_bytes / 2**20,
    }
    lost = f"{compare(range(events + 1), arrived).lost:,} of {events:,} events at {plan.rate:g} a second did not arrive"
    return Found(values, [f"{lost}: {short.reason}"] if short else [])


def _cpu(run: Running, since: float, until: float) -> float:
    return run.sampler.cpu_at(until) - run.sampler.cpu_at(since)
