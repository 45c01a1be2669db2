"""Cases in which nobody is killed: an idle outbox, a broker that is away, a row that cannot be delivered."""

import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic, sleep, time

from tests.bench.peers.matrix_crashes import BACK_WITHIN, RATE
from tests.bench.peers.matrix_load import Load
from tests.bench.peers.matrix_outcome import Outcome, back, outcome
from tests.bench.peers.matrix_stage import Stage
from tests.servers.waiting import NotInTime, wait_until

_BUSY_TRANSACTIONS = 20
_BUSY_ROWS = 10_000  # of a kilobyte, each transaction
_WATCHED = 60.0
_FREE_BYTES = 32 * 2**20  # two segments

_AWAY = 60.0

_GOOD_ROWS = 100  # before the bad one, and after it
_ENDS = 3  # its supervisor sees it end so often before nobody waits any longer
_STANDS = 90.0


def idle(stage: Stage) -> Outcome:
    """An outbox without a new row, while another table gets some 200 MB."""
    with stage.tool:
        stage.write(0, 0)
        stage.wait_for(0)
        before = _confirmed(stage)
        written = _write_elsewhere(stage)
        freed_after = _wait_until_freed(stage)
        retained, confirmed = _retained(stage), _confirmed(stage) - before
        arrived = stage.settle(1, BACK_WITHIN)
    values = {"written MB": written / 2**20, "retained MB": retained / 2**20, "confirmed MB": confirmed / 2**20}
    if freed_after is None:
        return outcome(stage, arrived, values=values, notes=[f"not free {_WATCHED:g} s after the last write"])
    return outcome(stage, arrived, values={**values, "free after s": freed_after})


def broker(stage: Stage) -> Outcome:
    """The broker away for a minute under load."""
    with stage.tool:
        stage.write(0, 0)
        stage.wait_for(0)
        with Load(stage.database, stage.outbox, 1, RATE) as load:
            stage.wait_for(int(2 * RATE))
            stage.kafka.stop()
            stopped = time()
            sleep(_AWAY)
            ends = len(stage.tool.exits)
            stage.kafka.start()
            available = time()
            with suppress(NotInTime):
                wait_until(
                    lambda: back(stage.arrived(), load.committed, stopped, available) is not None,
                    BACK_WITHIN,
                    "an event committed while the broker was away",
                    interval=0.5,
                )
        arrived = stage.settle(load.next, BACK_WITHIN)
    first_end = [f"ended first {stage.tool.exits[0].at - stopped:.0f} s after the broker"] if ends else []
    return outcome(stage, arrived, back_after=[back(arrived, load.committed, stopped, available)], notes=first_end)


def unroutable(stage: Stage) -> Outcome:
    """A row in the middle whose topic cannot be: its name has a blank and an exclamation mark."""
    return _with_a_bad_row(stage, "not a topic!")


def unknown_topic(stage: Stage) -> Outcome:
    """A row in the middle whose topic does not exist, at a broker that makes none."""
    return _with_a_bad_row(stage, "nobody-made-it")


def _write_elsewhere(stage: Stage) -> int:
    """Returns how many bytes of WAL that was."""
    stage.database.execute("CREATE TABLE elsewhere (id bigserial PRIMARY KEY, text text)")
    before = stage.position()
    for _ in range(_BUSY_TRANSACTIONS):
        stage.database.execute(
            "INSERT INTO elsewhere (text) SELECT repeat(md5(n::text), 32) FROM generate_series(1, %s) n", [_BUSY_ROWS]
        )
    return stage.position() - before


def _wait_until_freed(stage: Stage) -> float | None:
    began = monotonic()
    while monotonic() - began < _WATCHED:
        stage.database.execute("CHECKPOINT")  # a busy server has them; the slot's restart_lsn follows with one
        if _retained(stage) < _FREE_BYTES:
            return monotonic() - began
        sleep(1)
    return None


def _confirmed(stage: Stage) -> int:
    ((position,),) = stage.database.execute("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots")
    return int(position)


def _retained(stage: Stage) -> int:
    ((size,),) = stage.database.execute("SELECT pg_current_wal_insert_lsn() - restart_lsn FROM pg_replication_slots")
    return int(size)


def _with_a_bad_row(stage: Stage, kind: str) -> Outcome:
    bad, key = str(uuid.uuid4()), "order-unroutable"
    topic = f"outbox.event.{kind}"
    before, after = range(1, _GOOD_ROWS + 1), range(_GOOD_ROWS + 1, 2 * _GOOD_ROWS + 1)
    with stage.tool:
        stage.write(0, 0)
        stage.wait_for(0)
        for number in before:
            stage.write(number, number)
        said_before = len(stage.tool.says())
        # Debezium routes by aggregate_type; walrelay was given the topic for all rows but those that name their own.
        stage.database.execute(
            "INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload, topic)"
            " VALUES (%s, %s, %s, 'OrderPlaced', '{}', %s)",
            [bad, kind, key, topic],
        )
        for number in after:
            stage.write(number, number)
        began = monotonic()
        with suppress(NotInTime):
            wait_until(lambda: _over(stage, after[-1]), _STANDS * _ENDS, "what comes after the bad row", interval=0.5)
        marks = {"id": bad, "key": key, "topic": topic}
        with suppress(NotInTime):  # what goes elsewhere need not wait for the bad row
            wait_until(lambda: _told(stage, said_before, marks), _STANDS, "the bad row to be dealt with", interval=0.5)
        took = monotonic() - began
        arrived = stage.arrived()
        said = stage.tool.says()[said_before:]
    numbers = {event.number for event in arrived}
    notes = [
        f"before it {len(numbers & {*before})} of {_GOOD_ROWS} delivered, after it {len(numbers & {*after})}",
        *_names(said, marks),
    ]
    return outcome(
        stage, arrived, expected={0, *before, *after}, values={"watched s": took}, notes=[*notes, *_words(said)]
    )


def _over(stage: Stage, last: int) -> bool:
    return len(stage.tool.exits) >= _ENDS or any(event.number == last for event in stage.arrived())


def _told(stage: Stage, said_before: int, marks: dict[str, str]) -> bool:
    said = stage.tool.says()[said_before:]
    return bool(stage.tool.exits) or any(mark in said for mark in marks.values())


def _names(said: str, marks: dict[str, str]) -> Iterator[str]:
    named = [name for name, mark in marks.items() if mark in said]
    yield f"its log names the row's {', '.join(named)}" if named else "its log names nothing of the row"


def _words(said: str) -> Iterator[str]:
    """Its first error."""
    lines = [line for line in said.splitlines() if re.search(r"\b(ERROR|error|fatal)\b", line)]
    if lines:
        yield f"says first: {lines[0][:500]}"
