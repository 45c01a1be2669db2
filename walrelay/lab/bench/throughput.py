"""`walrelay bench throughput` from beginning to end: servers, the backlog, readings in rounds, medians of them."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from walrelay.errors import Fatal
from walrelay.lab.bench import machine
from walrelay.lab.bench.backlog import TOPIC, Backlog, prepared
from walrelay.lab.bench.child import POSITIONS
from walrelay.lab.bench.machine import Servers, kafka_version
from walrelay.lab.bench.readers import (
    IntoBroker,
    Limit,
    MeasuredRelay,
    Polling,
    Reader,
    Reading,
    ReadingPlace,
    pg_recvlogical,
)
from walrelay.lab.bench.results import KEYS, Run, ThroughputRequest, ThroughputResult, turns
from walrelay.lab.brokers.contract import LabBroker
from walrelay.lab.brokers.kinds import own_or_users
from walrelay.lab.screen import Screen
from walrelay.lab.servers.backstage import Backstage, Interruption, opened
from walrelay.lab.servers.kafka import Kafka, MockKafka
from walrelay.lab.servers.postgres import EmbeddedPostgres, OwnPostgres, installed_programs

_DEBIAN = Path("/usr/lib/postgresql")

# No checkpoint while a reading is under way. Fixed times for autovacuum are not needed: after it was written, the
# backlog is vacuumed.
_SETTINGS: Mapping[str, str | int] = {"max_wal_size": "32GB", "checkpoint_timeout": "1d"}


def started(servers: Servers, backstage: Backstage, *, wal2json: bool, tcp: bool) -> EmbeddedPostgres | OwnPostgres:
    """Begins to start it. Where nothing was said, an installation with wal2json is preferred, if that is wanted."""
    if wal2json and not servers.dsn and not servers.postgres_bin:
        servers = servers._replace(postgres_bin=with_wal2json(_DEBIAN))
    settings = dict(_SETTINGS)
    if not servers.dsn and _limits_plugins(servers.programs().bin):
        settings["output_plugin_libraries"] = "pgoutput, wal2json"
    return servers.postgres(backstage, settings, tcp=tcp)


def with_wal2json(installations: Path) -> Path | None:
    """The newest installation below a directory like Debian's that has the plugin: its directory of programs."""
    return next((programs.bin for programs in installed_programs(installations) if programs.has_wal2json), None)


def _limits_plugins(programs: Path) -> bool:
    """Minors since August 2026 have a list of the plugins that may be used (CVE-2026-6471); others do not know it."""
    described = subprocess.run([programs / "postgres", "--describe-config"], capture_output=True, text=True)
    return any(line.startswith("output_plugin_libraries\t") for line in described.stdout.splitlines())


def taken(
    request: ThroughputRequest, readers: Mapping[str, Reader], place: ReadingPlace, screen: Screen
) -> Mapping[str, list[Reading]]:
    """Interleaved, so that a noisy neighbour meets everyone."""
    readings: dict[str, list[Reading]] = {name: [] for name in readers}
    for number in range(request.rounds):
        where = f"round {number + 1}/{request.rounds}"
        for name in turns(list(readers), number):
            with screen.console.status(f"{where}  {name}", refresh_per_second=2):
                reading = complete(name, readers[name].read(place), request.expected(name))
            readings[name].append(reading)
            screen.say(f" {where}  {name:<12}  {reading.events / reading.seconds:>9,.0f} events/s")
    return readings


_INTO_MOCK = {"mock", "mock-metrics", "wal2json", "polling"}
_FORGETS: Mapping[str, Any] = {"kind": "memory", "keep": 0}


class Started(NamedTuple):
    """The servers that a run needs. `kafka` is real; a reader that needs what is None cannot run."""

    postgres: EmbeddedPostgres | OwnPostgres
    mock: MockKafka | None
    kafka: Kafka | None
    sinks: Mapping[str, LabBroker]  # by their kinds


class Brokers(NamedTuple):
    """Bootstrap servers of those that answer."""

    mock: str
    kafka: str


def measured(
    request: ThroughputRequest, servers: Servers, screen: Screen, interruption: Interruption
) -> ThroughputResult:
    """However it ends, nothing is left behind: no process, no directory, and nothing on the user's servers."""
    with opened(interruption) as (backstage, stack):
        return _measured(request, servers, screen, backstage, stack)


def _measured(
    request: ThroughputRequest, servers: Servers, screen: Screen, backstage: Backstage, stack: ExitStack
) -> ThroughputResult:
    stage = _started(request, servers, backstage)
    with screen.step(stage.postgres.name):
        backlog = stack.enter_context(prepared(stage.postgres.ready(), embedded=stage.postgres.embedded))
    brokers = _ready(stage, screen, stack)
    able, not_run = _able(request, servers, stage, brokers, backlog, screen)
    for name, reason in not_run.items():
        screen.note(f"{name} cannot run here: {reason}")
    if not able:
        raise Fatal("there is nothing to measure: none of the readers can run here")
    with screen.step(f"a backlog of {request.events:,} events"):
        backlog.write(request)
    readings = taken(request, able, ReadingPlace(backstage, backlog), screen)
    kafka, server_version = stage.kafka or stage.mock, str(backlog.catalog.value("SHOW server_version"))
    return ThroughputResult(
        runs=runs(readings),
        not_run=list(not_run.items()),
        workload=_workload(request, able, over=stage.postgres),
        machine=machine.machine(),
        versions=machine.versions(
            server_version.split()[0],
            kafka_version(kafka) if kafka else "none",
            {kind: broker.version for kind, broker in stage.sinks.items()},
        ),
        command=request.command,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
    )


def _started(request: ThroughputRequest, servers: Servers, backstage: Backstage) -> Started:
    kafka = servers.kafka(backstage) if {"kafka", "exactly-once"} & set(request.names) else None
    if isinstance(kafka, MockKafka):
        kafka = None
    mock = MockKafka(backstage) if _INTO_MOCK & set(request.names) else None
    sinks = {kind: own_or_users(kind, backstage, request.sink_url) for kind in request.sinks}
    postgres = started(servers, backstage, wal2json="wal2json" in request.names, tcp=request.tcp)
    return Started(postgres, mock, kafka, sinks)


def _ready(stage: Started, screen: Screen, stack: ExitStack) -> Brokers:
    found = {"mock": "", "kafka": ""}
    for name, kafka in (("mock", stage.mock), ("kafka", stage.kafka)):
        if kafka is not None:
            with screen.step(kafka.name):
                found[name] = kafka.ready()
                stack.enter_context(kafka.topics([TOPIC], screen.note, [POSITIONS]))
    for broker in stage.sinks.values():
        with screen.step(broker.name):
            broker.ready()
    return Brokers(**found)


def _able(
    request: ThroughputRequest,
    servers: Servers,
    stage: Started,
    brokers: Brokers,
    backlog: Backlog,
    screen: Screen,
) -> tuple[dict[str, Reader], dict[str, str]]:
    """The readers that were asked for, and why others of them cannot run."""
    makers: Mapping[str, Callable[[], Reader]] = {
        "limit": lambda: _limit(request, servers, stage),
        "null": lambda: MeasuredRelay("the relay", _FORGETS, binary=request.binary),
        "null-metrics": lambda: MeasuredRelay("the relay", _FORGETS, binary=request.binary, metrics=True),
        "mock": lambda: _into_mock(request, brokers),
        "mock-metrics": lambda: _into_mock(request, brokers, metrics=True),
        "kafka": lambda: _into_kafka(request, stage, brokers),
        "exactly-once": lambda: _into_kafka(request, stage, brokers, delivery="exactly_once"),
        "wal2json": lambda: _wal2json(backlog, brokers),
        "polling": lambda: Polling(request.expected("polling"), _at(brokers.mock)),
        **{
            kind: partial(IntoBroker, broker, screen.note, binary=request.binary)
            for kind, broker in stage.sinks.items()
        },
    }
    able, not_run = dict[str, Reader](), dict[str, str]()
    for name in request.names:
        try:
            able[name] = makers[name]()
        except Fatal as reason:
            not_run[name] = str(reason)
    return able, not_run


def _limit(request: ThroughputRequest, servers: Servers, stage: Started) -> Limit:
    beside = stage.postgres.bin if isinstance(stage.postgres, EmbeddedPostgres) else None
    return Limit(pg_recvlogical(servers.postgres_bin, beside), binary=request.binary)


def _into_mock(request: ThroughputRequest, brokers: Brokers, *, metrics: bool = False) -> MeasuredRelay:
    environment = _at(brokers.mock)
    sink = _sink(create_topics=True)
    return MeasuredRelay("the relay", sink, binary=request.binary, environment=environment, metrics=metrics)


def _into_kafka(
    request: ThroughputRequest, stage: Started, brokers: Brokers, *, delivery: str = "at_least_once"
) -> MeasuredRelay:
    if stage.kafka is None:
        raise Fatal("there is no Kafka: name one with --bootstrap-servers, or the directory of one with --kafka-home")
    sink = {**_sink(create_topics=False), "positions_topic": POSITIONS}
    return MeasuredRelay("the relay", sink, binary=request.binary, environment=_at(brokers.kafka), delivery=delivery)


def _wal2json(backlog: Backlog, brokers: Brokers) -> MeasuredRelay:
    if why := backlog.refusal("wal2json"):
        raise Fatal(why)
    return MeasuredRelay(
        "the relay", _sink(create_topics=True), plugin="wal2json", binary=False, environment=_at(brokers.mock)
    )


def _at(bootstrap_servers: str) -> Mapping[str, str]:
    return {"KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers}


def _sink(*, create_topics: bool) -> Mapping[str, Any]:
    return {"kind": "kafka", "bootstrap_servers": "${KAFKA_BOOTSTRAP_SERVERS}", "create_topics": create_topics}


def _workload(
    request: ThroughputRequest, able: Mapping[str, Reader], over: EmbeddedPostgres | OwnPostgres
) -> Mapping[str, Any]:
    workload: dict[str, Any] = {
        "events": request.events,
        "row_bytes": request.row_bytes,
        "rows_per_transaction": request.rows_per_transaction or "all",
        "rounds": request.rounds,
        "pgoutput": "binary" if request.binary else "text",
    }
    if request.keys != KEYS:
        workload["keys"] = request.keys
    if over.embedded:
        workload["connection"] = "TCP" if request.tcp else "a Unix socket"
    if "polling" in able and request.expected("polling") < request.events:
        workload["polled_events"] = request.expected("polling")
    return {**workload, "quick": True} if request.quick else workload


_MILLION = 1_000_000


def complete(name: str, reading: Reading, expected: int) -> Reading:
    """The reading, if it delivered every event once."""
    if reading.events != expected:
        raise Fatal(
            f"{name} delivered {reading.events:,} of {expected:,} events: there is no number from such a run",
            hint="If nobody else wrote to walrelay_bench_backlog.outbox meanwhile, this is a bug. Please report it.",
        )
    return reading


def runs(readings: Mapping[str, Sequence[Reading]]) -> list[Run]:
    """In the order of the mapping."""
    limit = readings.get("limit")
    limit_rate = _rate(limit) if limit else None
    return [_run(name, taken, limit_rate) for name, taken in readings.items() if taken]


def _run(name: str, readings: Sequence[Reading], limit_rate: float | None) -> Run:
    rate = _rate(readings)
    senders = [reading.walsender_cpu_s / reading.events for reading in readings if reading.walsender_cpu_s is not None]
    return Run(
        name=name,
        events_per_second=rate,
        ratio_to_limit=rate / limit_rate if limit_rate else None,
        cpu_s_per_million=median(reading.cpu_s / reading.events for reading in readings) * _MILLION,
        walsender_cpu_s_per_million=median(senders) * _MILLION if senders else None,
        peak_rss_bytes=max(reading.peak_rss_bytes for reading in readings),
        round_events_per_second=[reading.events / reading.seconds for reading in readings],
    )


def _rate(readings: Sequence[Reading]) -> float:
    return median(reading.events / reading.seconds for reading in readings)
