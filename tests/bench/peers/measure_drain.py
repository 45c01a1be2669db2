"""Draining a backlog that was committed before the peer starts: events a second, and what they cost."""

from collections.abc import Iterator

from tests.bench.peers.bench import Bench, Place
from tests.bench.peers.consumer import consuming
from tests.bench.peers.deliveries import Delivered, compare, first_deliveries
from tests.bench.peers.measure import Failed, Found, Patience, Plan, Shortfall, remarks, wait_for_events
from tests.bench.peers.processes import Sampler
from tests.bench.peers.running import running
from tests.bench.peers.workload import write_backlog


def drain(bench: Bench, place: Place, plan: Plan) -> Found:
    """From the first event's arrival to the last one's; what comes before that first is the start-up, told apart.

    What a peer has read by then without publishing it counts as start-up as well: of 500,000 rows that is little, of
    20,000 it may be all.
    """
    write_backlog(place.database, place.outbox, plan.rows)
    with (
        consuming(place.site.bootstrap_servers, place.site.topic, place.arrivals) as arrivals,
        Sampler(bench.postgres.pid) as postgres,
        running(place.command, place.log) as run,
    ):
        short = wait_for_events(arrivals, run, plan.rows, Patience(cap=plan.cap))
    events = arrivals.events()
    delivered = compare(range(plan.rows), events)
    if delivered.events < 2:
        raise Failed(short.reason if short else "one event is not enough for a rate")
    first, *_, last = (event.at for event in first_deliveries(events).values())
    millions = delivered.events / 1e6
    values = {
        "events": delivered.events,
        "events_per_second": (delivered.events - 1) / max(last - first, 1e-6),
        "start_to_first_event_seconds": first - run.began,
        "events_per_second_from_start": delivered.events / (last - run.began),
        "cpu_per_million": (run.sampler.cpu_at(last) - run.sampler.cpu_at(first)) / millions,
        "start_up_cpu": run.sampler.cpu_at(first),
        "postgres_cpu_per_million": (postgres.cpu_at(last) - postgres.cpu_at(first)) / millions,
        "peak_rss_mb": run.sampler.peak_rss_bytes / 2**20,
        "duplicates": delivered.duplicates,
        "out_of_order": delivered.out_of_order,
    }
    return Found(values, [*_notes(delivered, short, plan)])


def _notes(delivered: Delivered, short: Shortfall | None, plan: Plan) -> Iterator[str]:
    if short:
        yield f"drained {delivered.events:,} of {plan.rows:,} events: {short.reason}"
    yield from remarks(delivered)
