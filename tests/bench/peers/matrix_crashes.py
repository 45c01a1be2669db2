"""Cases in which the tool is killed, or loses its connection to PostgreSQL."""

import json
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from subprocess import TimeoutExpired
from time import time

from tests.bench.peers.consumer import Arrivals, consuming
from tests.bench.peers.deliveries import key_of
from tests.bench.peers.matrix_load import Load
from tests.bench.peers.matrix_outcome import Outcome, back, outcome
from tests.bench.peers.matrix_stage import TOPIC, Stage
from tests.servers.postgres import StopMode
from tests.servers.waiting import NotInTime, wait_until

RATE = 200.0
BACK_WITHIN = 120.0
ROUNDS = 3

_COPIED = 5_000
_COPIES = 5
_STOPS_WITHIN = 60.0

_LSN = re.compile(rb'"lsn":(\d+)')
_OF_A_ROW = b'"messageType":"INSERT"'


def copy(stage: Stage) -> Outcome:
    """kill -9 as soon as a position within one COPY is stored, or, where a tool stores none there, as events arrive."""
    notes = []
    arrivals_file = stage.site.directory / "arrivals"
    with stage.tool, consuming(stage.kafka.bootstrap_servers, TOPIC, arrivals_file) as arrivals:
        stage.write(0, 0)
        stage.wait_for(0)
        arrived = stage.arrived()
        for number in range(_COPIES):
            first = 1 + number * (_COPIED + 1)
            killed = _kill_in_copy(stage, arrivals, first)
            stage.tool.start()
            arrived = stage.settle(first + _COPIED, BACK_WITHIN)
            missing = {*range(first, first + _COPIED)} - {event.number for event in arrived}
            notes.append(f"{killed}: {len(missing):,} lost")
    return outcome(stage, arrived, notes=notes)


def walsender(stage: Stage) -> Outcome:
    """The walsender terminated under load."""
    return _under_load(stage, _terminate_walsender)


def restart_fast(stage: Stage) -> Outcome:
    """PostgreSQL stopped as `pg_ctl stop -m fast` does, and started again at once, under load."""
    return _under_load(stage, lambda stage: _restart(stage, "fast"))


def restart_immediate(stage: Stage) -> Outcome:
    """PostgreSQL stopped as a crash does, and started again at once, under load."""
    return _under_load(stage, lambda stage: _restart(stage, "immediate"))


def _kill_in_copy(stage: Stage, arrivals: Arrivals, first: int) -> str:
    """What it was killed in the middle of."""
    stored = stage.site.directory / "data" / "offsets.dat"  # Debezium's; walrelay's position is the slot's
    there, begin = arrivals.count(), stage.position()
    _copy(stage, first)
    end = stage.position()
    if stored.exists():
        wait_until(lambda: (_lsn(stored) or 0) >= begin, 60, "a position to be stored", interval=0.0005)
    else:
        wait_until(lambda: arrivals.count() > there, 60, "the first event of the COPY", interval=0.0005)
    stage.tool.kill()
    events = sum(first <= event.number < first + _COPIED for event in stage.arrived())
    position = _lsn(stored) if stored.exists() else None
    where = "" if position is None else f", the stored position {'within' if position < end else 'after'} it"
    return f"killed with {events:,} of {_COPIED:,} in Kafka{where}"


def _lsn(stored: Path) -> int | None:
    """None where it is a heartbeat's, and while it is being written: a Java map's serialization ends in an x."""
    serialized = stored.read_bytes()
    found = _LSN.search(serialized) if serialized.endswith(b"x") and _OF_A_ROW in serialized else None
    return int(found[1]) if found else None


def _copy(stage: Stage, first: int) -> None:
    """One transaction."""
    rest = json.dumps({"text": "x" * 88})[1:]
    # With created_at: a column whose default is volatile makes COPY insert row by row, and each has its own position.
    into = "COPY outbox (id, aggregate_type, aggregate_id, type, payload, created_at) FROM STDIN"
    now = datetime.now(UTC)
    with stage.database.connect() as connection, connection.cursor() as cursor, cursor.copy(into) as rows:
        for number in range(first, first + _COPIED):
            payload = f'{{"number": {number}, {rest}'
            rows.write_row((uuid.uuid4(), "order", key_of(number), "OrderPlaced", payload, now))


def _under_load(stage: Stage, disturb: Callable[[Stage], tuple[float, float, str]]) -> Outcome:
    """disturb: returns when it did and when PostgreSQL was there again, as Unix time, and a remark."""
    moments, notes = [], []
    with stage.tool:
        stage.write(0, 0)
        stage.wait_for(0)
        with Load(stage.database, stage.outbox, 1, RATE) as load:
            for _ in range(ROUNDS):
                stage.wait_for(load.next + int(RATE))
                disturbed, available, note = disturb(stage)
                moments.append((disturbed, available))
                notes += [note] if note else []
                _wait_until_back(stage, load, disturbed)
        arrived = stage.settle(load.next, BACK_WITHIN)
    backs = [back(arrived, load.committed, *moment) for moment in moments]
    return outcome(stage, arrived, back_after=backs, notes=notes)


def _wait_until_back(stage: Stage, load: Load, disturbed: float) -> None:
    """Or until it has had its chance."""
    with suppress(NotInTime):
        wait_until(
            lambda: back(stage.arrived(), load.committed, disturbed, disturbed) is not None,
            BACK_WITHIN,
            "an event committed after the disturbance",
            interval=0.5,
        )


def _terminate_walsender(stage: Stage) -> tuple[float, float, str]:
    terminated = stage.database.execute(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL"
    )
    now = time()
    return now, now, "" if terminated else "there was no walsender to terminate"


def _restart(stage: Stage, mode: StopMode) -> tuple[float, float, str]:
    began, note = time(), ""
    try:
        stage.postgres.stop(mode, _STOPS_WITHIN)
    except TimeoutExpired:
        note = f"PostgreSQL did not stop within {_STOPS_WITHIN:g} s: it waited for the walsender"
        stage.postgres.stop("immediate")
    took = time() - began
    if not note and took > 5:
        note = f"PostgreSQL took {took:.1f} s to stop"
    stage.postgres.start()
    now = time()
    return now, now, note
