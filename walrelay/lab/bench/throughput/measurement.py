"""`walrelay bench throughput` from beginning to end: servers, the backlog, readings in rounds, the result."""

import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from walrelay.errors import Fatal
from walrelay.lab.bench import machine
from walrelay.lab.bench.names import POSITIONS
from walrelay.lab.bench.results import ThroughputResult
from walrelay.lab.bench.screen import Screen
from walrelay.lab.bench.servers import Servers, kafka_version
from walrelay.lab.bench.throughput import medians
from walrelay.lab.bench.throughput.backlog import TOPIC, Backlog, prepared
from walrelay.lab.bench.throughput.medians import Reading, complete
from walrelay.lab.bench.throughput.readers import Limit, Place, Polling, Reader, Relay, pg_recvlogical
from walrelay.lab.bench.throughput.request import Wish, order
from walrelay.lab.servers.backstage import Backstage, opened
from walrelay.lab.servers.interruption import Interruption
from walrelay.lab.servers.kafka import Kafka, MockKafka
from walrelay.lab.servers.postgres import EmbeddedPostgres, OwnPostgres

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
    found = [path.parent for path in installations.glob("*/bin/postgres") if path.parent.parent.name.isdecimal()]
    having = [directory for directory in found if _has_wal2json(directory.parent / "lib")]
    return max(having, key=lambda directory: int(directory.parent.name), default=None)


def _has_wal2json(libraries: Path) -> bool:
    return any((directory / "wal2json.so").is_file() for directory in (libraries, libraries / "postgresql"))


def _limits_plugins(programs: Path) -> bool:
    """Minors since August 2026 have a list of the plugins that may be used (CVE-2026-6471); others do not know it."""
    described = subprocess.run([programs / "postgres", "--describe-config"], capture_output=True, text=True)
    return any(line.startswith("output_plugin_libraries\t") for line in described.stdout.splitlines())


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


_INTO_MOCK = {"mock", "wal2json", "polling"}


class Stage(NamedTuple):
    """The servers that a run needs. `kafka` is real; a reader that needs what is None cannot run."""

    postgres: EmbeddedPostgres | OwnPostgres
    mock: MockKafka | None
    kafka: Kafka | None


class Brokers(NamedTuple):
    """Bootstrap servers of those that answer."""

    mock: str
    kafka: str


def measured(wish: Wish, servers: Servers, screen: Screen, interruption: Interruption) -> ThroughputResult:
    """However it ends, nothing is left behind: no process, no directory, and nothing on the user's servers."""
    with opened(interruption) as (backstage, stack):
        return _measured(wish, servers, screen, backstage, stack)


def _measured(wish: Wish, servers: Servers, screen: Screen, backstage: Backstage, stack: ExitStack) -> ThroughputResult:
    stage = _started(wish, servers, backstage)
    with screen.step(stage.postgres.name):
        backlog = stack.enter_context(prepared(stage.postgres.ready(), embedded=stage.postgres.embedded))
    brokers = _ready(stage, screen, stack)
    able, not_run = _able(wish, servers, stage, brokers, backlog)
    for name, reason in not_run.items():
        screen.note(f"{name} cannot run here: {reason}")
    if not able:
        raise Fatal("there is nothing to measure: none of the readers can run here")
    with screen.step(f"a backlog of {wish.events:,} events"):
        backlog.write(wish)
    readings = taken(wish, able, Place(backstage, backlog), screen)
    kafka, server_version = stage.kafka or stage.mock, str(backlog.catalog.value("SHOW server_version"))
    return ThroughputResult(
        runs=medians.runs(readings),
        not_run=list(not_run.items()),
        workload=_workload(wish, able, over=stage.postgres),
        machine=machine.machine(),
        versions=machine.versions(server_version.split()[0], kafka_version(kafka) if kafka else "none"),
        command=wish.command,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
    )


def _started(wish: Wish, servers: Servers, backstage: Backstage) -> Stage:
    kafka = servers.kafka(backstage) if {"kafka", "exactly-once"} & set(wish.names) else None
    if isinstance(kafka, MockKafka):
        kafka = None
    mock = MockKafka(backstage) if _INTO_MOCK & set(wish.names) else None
    postgres = started(servers, backstage, wal2json="wal2json" in wish.names, tcp=wish.tcp)
    return Stage(postgres, mock, kafka)


def _ready(stage: Stage, screen: Screen, stack: ExitStack) -> Brokers:
    found = {"mock": "", "kafka": ""}
    for name, kafka in (("mock", stage.mock), ("kafka", stage.kafka)):
        if kafka is not None:
            with screen.step(kafka.name):
                found[name] = kafka.ready()
                stack.enter_context(kafka.topics([TOPIC], screen.note, [POSITIONS]))
    return Brokers(**found)


def _able(
    wish: Wish, servers: Servers, stage: Stage, brokers: Brokers, backlog: Backlog
) -> tuple[dict[str, Reader], dict[str, str]]:
    """The readers that were asked for, and why others of them cannot run."""
    makers: Mapping[str, Callable[[], Reader]] = {
        "limit": lambda: _limit(wish, servers, stage),
        "null": lambda: Relay("the relay", {"kind": "memory", "keep": 0}, binary=wish.binary),
        "mock": lambda: Relay("the relay", _sink(create_topics=True), binary=wish.binary, bootstrap=brokers.mock),
        "kafka": lambda: _into_kafka(wish, stage, brokers),
        "exactly-once": lambda: _into_kafka(wish, stage, brokers, delivery="exactly_once"),
        "wal2json": lambda: _wal2json(backlog, brokers),
        "polling": lambda: Polling(wish.expected("polling"), brokers.mock),
    }
    able, not_run = dict[str, Reader](), dict[str, str]()
    for name in wish.names:
        try:
            able[name] = makers[name]()
        except Fatal as reason:
            not_run[name] = str(reason)
    return able, not_run


def _limit(wish: Wish, servers: Servers, stage: Stage) -> Limit:
    beside = stage.postgres.bin if isinstance(stage.postgres, EmbeddedPostgres) else None
    return Limit(pg_recvlogical(servers.postgres_bin, beside), binary=wish.binary)


def _into_kafka(wish: Wish, stage: Stage, brokers: Brokers, *, delivery: str = "at_least_once") -> Relay:
    if stage.kafka is None:
        raise Fatal("there is no Kafka: name one with --bootstrap-servers, or the directory of one with --kafka-home")
    sink = {**_sink(create_topics=False), "positions_topic": POSITIONS}
    return Relay("the relay", sink, binary=wish.binary, bootstrap=brokers.kafka, delivery=delivery)


def _wal2json(backlog: Backlog, brokers: Brokers) -> Relay:
    if why := backlog.refusal("wal2json"):
        raise Fatal(why)
    return Relay("the relay", _sink(create_topics=True), plugin="wal2json", binary=False, bootstrap=brokers.mock)


def _sink(*, create_topics: bool) -> Mapping[str, Any]:
    return {"kind": "kafka", "bootstrap_servers": "${KAFKA_BOOTSTRAP_SERVERS}", "create_topics": create_topics}


def _workload(wish: Wish, able: Mapping[str, Reader], over: EmbeddedPostgres | OwnPostgres) -> Mapping[str, Any]:
    workload: dict[str, Any] = {
        "events": wish.events,
        "row_bytes": wish.row_bytes,
        "rows_per_transaction": wish.rows_per_transaction or "all",
        "rounds": wish.rounds,
        "pgoutput": "binary" if wish.binary else "text",
    }
    if over.embedded:
        workload["connection"] = "TCP" if wish.tcp else "a Unix socket"
    if "polling" in able and wish.expected("polling") < wish.events:
        workload["polled_events"] = wish.expected("polling")
    return {**workload, "quick": True} if wish.quick else workload
