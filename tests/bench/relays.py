"""What several relays cost: `python -m tests.bench.relays walsenders|flood|sinks|admin`, on servers of its own.

`walsenders`: relays of one database, each with a table of its own, share the events; every walsender decodes all of
them. A sink that keeps nothing. `flood`: how long an event of a quiet relay takes to its topic, alone and beside a
relay that has more to do than it can, in one process and in two. `sinks`: a backlog into two topics of one broker,
half of it to each, by one sink and by two. `admin`: how long an event takes, alone and beside 100 requests a second
to the admin API.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from http.client import HTTPConnection
from io import StringIO
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import monotonic, sleep, time
from typing import Any

import psutil
from confluent_kafka import Consumer

from tests.acceptance.admin_process import AdminProcess
from tests.bench.cleanup import say
from tests.servers import choose
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until
from walrelay import cli

COUNTS = (1, 10, 50)
RATES = (1_000, 10_000)
_TICK = 0.02  # seconds between two transactions of a writer
_REQUESTS = 100  # a second
_QUIET = 0.02  # seconds between two events of a quiet relay
_INSERT = """
INSERT INTO {} (aggregate_type, aggregate_id, type, payload)
SELECT %s, 'order-' || n, 'OrderPlaced', jsonb_build_object('number', n, 'padding', repeat('x', 90))
FROM generate_series(1, %s) n
"""
_SERVER: dict[str, Any] = {
    "max_replication_slots": 60,
    "max_wal_senders": 60,
    "max_connections": 200,
    "shared_buffers": "512MB",
}

Settings = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("walsenders", "flood", "sinks", "admin"))
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement of walsenders or flood")
    parser.add_argument("--rows", type=int, default=100_000, help="of the backlog for sinks")
    options = parser.parse_args()
    programs = choose.postgres_programs(choose.this_machine())
    with (
        PostgresServer(programs, {**_SERVER, "max_wal_size": "4GB"}) as server,
        tempfile.TemporaryDirectory() as directory,
    ):
        database, file = server.create_database(), Path(directory) / "relays.yaml"
        if options.what == "walsenders":
            _walsenders(server, database, file, options.seconds)
            return
        with KafkaServer(choose.kafka_jars(choose.this_machine())) as kafka:
            if options.what == "flood":
                _flood(database, file, kafka, options.seconds)
            elif options.what == "admin":
                _admin(database, file, kafka, options.seconds)
            else:
                _sinks(database, file, kafka, options.rows)


def _initialized(file: Path, database: Database, relays: dict[str, Settings]) -> None:
    """Each relay has a table and a publication of its own, and a slot of the same name."""
    for name, settings in relays.items():
        settings["source"] = {"dsn": database.dsn, "slot": f"{database.name}_{name}", "publication": name}
        settings["outbox"] = {"table": f"public.{name}"}
    file.write_text(json.dumps({"relays": relays}))  # which is YAML, without aliases
    with redirect_stdout(StringIO()):
        cli.main(["init", "--config", str(file)], standalone_mode=False)


@contextmanager
def _running(database: Database, file: Path, names: Sequence[str], *options: str) -> Iterator[psutil.Process]:
    words = [sys.executable, "-m", "walrelay", "run", "--config", str(file), *options]
    for name in names:
        words += ["--relay", name]
    active = "SELECT count(*) FROM pg_replication_slots WHERE active"
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as relays:
        try:
            wait_until(lambda: database.execute(active) == [(len(names),)], 60, "all relays to stream")
            yield psutil.Process(relays.pid)
        finally:
            relays.terminate()
            relays.wait(60)


class Load:
    """Events at a rate, in transactions of one table each, which take turns; `written` counts them."""

    def __init__(self, database: Database, tables: Sequence[str], rate: float) -> None:
        self.written = 0
        self._database, self._tables, self._rate, self._halt = database, tables, rate, Event()
        self._thread = Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._halt.set()
        self._thread.join(30)

    def _work(self) -> None:
        each = max(1, round(self._rate * _TICK))
        with self._database.connect() as connection:
            connection.execute("SET synchronous_commit = off")
            due, turn = monotonic(), 0
            while not self._halt.wait(max(0.0, due - monotonic())):
                connection.execute(_INSERT.format(self._tables[turn % len(self._tables)]), ["order", each])
                self.written += each
                due, turn = max(due + each / self._rate, monotonic() - 1), turn + 1


def _walsenders(server: PostgresServer, database: Database, file: Path, seconds: float) -> None:
    names = [f"r{number}" for number in range(max(COUNTS))]
    _initialized(file, database, {name: {"sink": {"kind": "memory"}} for name in names})
    say("relays  events/s asked, written: cores of the walsenders, of the relays' process")
    for count in reversed(COUNTS):  # a slot that is not read any more is not read again
        with _running(database, file, names[:count]) as process:
            for rate in RATES:
                with Load(database, names[:count], rate) as load:
                    sleep(2)
                    before, written, begun = (_walsender_seconds(server), _seconds(process)), load.written, monotonic()
                    sleep(seconds)
                    took = monotonic() - begun
                    senders, relays = _walsender_seconds(server) - before[0], _seconds(process) - before[1]
                    done = load.written - written
                say(f"{count:6} {rate:7} {done / took:8.0f}:  {senders / took:6.3f} {relays / took:6.3f}")


def _walsender_seconds(server: PostgresServer) -> float:
    children = psutil.Process(server.pid).children()
    return sum(_seconds(each) for each in children if "walsender" in " ".join(each.cmdline()))


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _flood(database: Database, file: Path, kafka: KafkaServer, seconds: float) -> None:
    topics = {name: kafka.create_topic() for name in ("quiet", "flood")}
    sink = {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers}
    _initialized(file, database, {name: {"sink": sink, "route": {"topic": topic}} for name, topic in topics.items()})
    say("events of the quiet relay, 50 a second, from the INSERT to the consumer, ms")
    with _running(database, file, ["quiet"]):
        _latencies(database, kafka, topics["quiet"], 2)  # which warms the broker up
        say(f"alone:                          {_latencies(database, kafka, topics['quiet'], seconds)}")
    for what, options in (("beside a flood, one process", ()), ("beside a flood, two processes", ("--processes", "2"))):
        with _running(database, file, ["quiet", "flood"], *options):
            for rate in (5_000, 50_000):
                with Load(database, ["flood"], rate) as load:
                    sleep(2)
                    written, begun = load.written, monotonic()
                    found = _latencies(database, kafka, topics["quiet"], seconds)
                    flooded = (load.written - written) / (monotonic() - begun)
                say(f"{what:30}: {found}; {flooded:.0f} events/s written beside them")
                _confirmed(database, 60)


def _admin(database: Database, file: Path, kafka: KafkaServer, seconds: float) -> None:
    topic = kafka.create_topic()
    sink = {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers}
    _initialized(file, database, {"quiet": {"sink": sink, "route": {"topic": topic}}})
    admin = {"listen": "127.0.0.1:0", "requests_per_second": 10 * _REQUESTS}
    file.write_text(json.dumps({**json.loads(file.read_text()), "defaults": {"admin": admin}}))
    say(f"events, 50 a second, from the INSERT to the consumer, ms; {_REQUESTS} requests a second")
    with _running(database, file, ["quiet"]) as process:
        _latencies(database, kafka, topic, 2)  # which warms the broker up
        for turn in range(6):
            before, begun = _seconds(process), monotonic()
            with ExitStack() as stack:
                answers = stack.enter_context(_asked(file)) if turn % 2 else []
                found = _latencies(database, kafka, topic, seconds)
            cores = (_seconds(process) - before) / (monotonic() - begun)
            what = f"beside {len(answers)} requests" if turn % 2 else "alone"
            say(f"{what:21}: {found}; {cores:.3f} cores")


@contextmanager
def _asked(file: Path) -> Iterator[list[int]]:
    """Inside, the admin API is asked at that rate for lists and the relay's status; its answers' codes."""
    process, halt, codes = AdminProcess(file), Event(), list[int]()

    def ask() -> None:
        connection, due = HTTPConnection("127.0.0.1", process.first["port"]), monotonic()
        while not halt.wait(max(0.0, due - monotonic())):
            connection.request("GET", "/api/v1/relays" if len(codes) % 2 else "/api/v1/relays/quiet")
            answer = connection.getresponse()
            answer.read()
            codes.append(answer.status)
            due += 1 / _REQUESTS

    thread = Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield codes
    finally:
        halt.set()
        thread.join(30)
        process.stop()
    assert {*codes} == {200}


def _latencies(database: Database, kafka: KafkaServer, topic: str, seconds: float) -> str:
    """The event has the moment of its INSERT, which commits by itself; the consumer notes when it sees it."""
    settings = {"bootstrap.servers": kafka.address_for_tests, "group.id": "bench", "auto.offset.reset": "latest"}
    consumer, found, halt, ready = Consumer(settings | {"fetch.wait.max.ms": 10}), list[float](), Event(), Event()

    def listen() -> None:
        while not halt.is_set():
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                found.append(1000 * (time() - float(message.key() or b"0")))
                ready.set()

    consumer.subscribe([topic])
    thread = Thread(target=listen, daemon=True)
    thread.start()
    insert = "INSERT INTO quiet (aggregate_type, aggregate_id, type, payload) VALUES ('order', %s, 'Placed', '{}')"
    with database.connect() as connection:
        while not ready.wait(0.2):
            connection.execute(insert, [repr(time())])
        sleep(0.5)
        found.clear()
        due, end, sent = monotonic(), monotonic() + seconds, 0
        while due < end:
            sleep(max(0.0, due - monotonic()))
            connection.execute(insert, [repr(time())])
            due, sent = due + _QUIET, sent + 1
    wait_until(lambda: len(found) >= sent, 60, "all events of the quiet relay")
    halt.set()
    thread.join(5)
    consumer.close()
    ordered = sorted(found)
    p50, p99 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
    return f"p50 {p50:6.2f}, p99 {p99:7.2f}, longest {ordered[-1]:7.2f} ({len(ordered)})"


def _confirmed(database: Database, timeout: float) -> None:
    ((end,),) = database.execute("SELECT pg_current_wal_insert_lsn()::text")
    behind = "SELECT 1 FROM pg_replication_slots WHERE active AND confirmed_flush_lsn < %s::pg_lsn"
    wait_until(lambda: not database.execute(behind, [end]), timeout, "all to be confirmed")


def _sinks(database: Database, file: Path, kafka: KafkaServer, rows: int) -> None:
    a, b = kafka.create_topic(), kafka.create_topic()
    sink = {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers}
    rules: Callable[[Settings, Settings], list[Settings]] = lambda first, second: [  # noqa: E731
        {"name": "first", "when": {"aggregate_type": "a"}, "topic": a, **first},
        {"name": "second", "topic": b, **second},
    ]
    relays: dict[str, Settings] = {
        "one": {"sink": sink, "routes": rules({}, {})},
        "two": {"sinks": {"a": sink, "b": sink}, "routes": rules({"sink": "a"}, {"sink": "b"})},
    }
    _initialized(file, database, relays)
    rates: dict[str, list[float]] = {name: [] for name in relays}
    for turn in range(7):  # the first one of each warms the broker up
        for name in relays if turn % 2 else reversed(relays):
            for kind in "ab" * 50:
                database.execute(_INSERT.format(name), [kind, rows // 100])
            with _running(database, file, [name]) as process:
                begun, cpu = monotonic(), _seconds(process)
                _confirmed(database, 60)
                took, cpu = monotonic() - begun, _seconds(process) - cpu
            if turn:
                rates[name].append(rows / took)
                say(f"{name} sink(s): {rows / took:8.0f} events/s, {cpu:.2f} s of CPU")
    one, two = (median(rates[name]) for name in ("one", "two"))
    say(f"medians {one:.0f} and {two:.0f} events/s: two sinks have {two / one:.2f} of one's")


if __name__ == "__main__":
    main()
