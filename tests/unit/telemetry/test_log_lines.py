"""How what happens looks in the log: names, fields and levels that alerts are made of; a fatal error for people."""

import json
import re
from typing import get_args

import pytest

from walrelay.dead_letter import DeadLetter, Origin
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import Skipped
from walrelay.observe import (
    Acknowledged,
    Backfilled,
    Backfilling,
    Behind,
    CleanedUp,
    Confirmed,
    DeadLettered,
    Dropped,
    EndedFatally,
    GivingUp,
    Happening,
    Leads,
    LeftAtOnce,
    NotCleanedUp,
    Noticed,
    NotMarked,
    Paused,
    PauseOver,
    Relayed,
    Resumed,
    Retrying,
    Settled,
    Stalled,
    StandingBy,
    Stopped,
    Stopping,
    Streaming,
    TakingOver,
    Turned,
    WaitedForRegistry,
    WaitedForRoom,
)
from walrelay.observe.processes import (
    DatabaseFound,
    DatabaseGone,
    Listening,
    NotStarted,
    ProcessDied,
    ProcessLost,
    ProcessStarted,
)
from walrelay.telemetry import logs

ERROR = Fatal('topic "a" does not exist', hint="kafka-topics.sh --create --topic 'a' --partitions 12")
HERE = LSN.parse("16/B374D848")
LETTER = DeadLetter(Origin(HERE, 3, 0, "e1"), "waiting", "too_large", "1 MB at most", "orders", b"key", attempts=2)

WHERE = "16/B374D848"


def logged(level: str, event: str, **fields: object) -> str:
    return json.dumps({"relay": "r", **fields, "event": event, "level": level})


AWAY, NOTHING = "broker away", "nothing was acknowledged"
DEAD = {"status": "waiting", "id": "e1", "position": f"{WHERE}:3", "topic": "orders", "error": "too_large"}
LINES: list[tuple[Happening, str]] = [
    (StandingBy("s"), logged("info", "standing by", slot="s")),
    (TakingOver("s", "so"), logged("info", "taking over", slot="s", why="so")),
    (GivingUp("s", "so"), logged("info", "giving up", slot="s", why="so")),
    (Streaming("s", HERE, "pgoutput"), logged("info", "streaming", slot="s", start=WHERE, plugin="pgoutput")),
    (Relayed(3, 4), ""),
    (Turned(), ""),
    (Settled(0.1, 0.05), ""),
    (Behind(None), ""),
    (WaitedForRoom(0.3), ""),
    (WaitedForRegistry(0.3, "away"), ""),
    (Acknowledged(3, 1), ""),
    (Retrying("down", 2, 0.2, False, "Retryable", again=True), ""),
    (Listening("127.0.0.1", 9464), logged("info", "listening", host="127.0.0.1", port=9464)),
    (Confirmed(HERE, 2), logged("debug", "confirmed", lsn=WHERE, unsettled=2)),
    (Stalled(5.67, 3, AWAY), logged("warning", "stalled", seconds=5.7, unsettled=3, why=AWAY)),
    (Stalled(5.67, 3, ""), logged("warning", "stalled", seconds=5.7, unsettled=3, why=NOTHING)),
    (Resumed(7.12), logged("info", "resumed", after_seconds=7.1)),
    (Skipped(HERE, "so"), logged("warning", "skipped", lsn=WHERE, why="so")),
    (DeadLettered(LETTER), logged("warning", "set aside", **DEAD, reason="1 MB at most")),
    (Dropped("noise", WHERE), logged("info", "dropped by a rule", rule="noise", records=1, last=WHERE)),
    (Noticed("hello"), logged("warning", "noticed", text="hello")),
    (Retrying("down", 1, 0.234, False), logged("warning", "retrying", cause="down", attempt=1, pause=0.23)),
    (Retrying("down", 3, 0.234, True), logged("error", "retrying", cause="down", attempt=3, pause=0.23)),
    (Backfilling(3, 0), ""),
    (Backfilled(3), ""),
    (Leads(True), ""),
    (CleanedUp(3, "a", "b", 1.23), logged("info", "cleaned up", rows=3, dropped=["a"], made=["b"], seconds=1.2)),
    (CleanedUp(0, "", "", 0.1), logged("debug", "cleaned up", rows=0, dropped=[], made=[], seconds=0.1)),
    (NotCleanedUp("no"), logged("warning", "not cleaned up", why="no")),
    (NotMarked("no"), logged("warning", "not marked", why="no")),
    (Stopping(3, 25.0), logged("info", "stopping", unsettled=3, within_seconds=25.0)),
    (Paused("s", "by a", "1 GB"), logged("warning", "paused", slot="s", why="by a", cost="1 GB")),
    (PauseOver("so", 1.23), logged("info", "pause over", why="so", after_seconds=1.2)),
    (LeftAtOnce(), logged("warning", "left at once", consequence="what was not confirmed will be published again")),
    (Stopped(HERE, 3), logged("info", "stopped", confirmed=WHERE, unsettled=3)),
    (
        EndedFatally(ERROR),
        logged("error", "fatal", error=str(ERROR), hint=ERROR.hint, page=f"walrelay docs runbook#{ERROR.page}"),
    ),
    (ProcessStarted(1, 7, "ab"), logged("info", "process started", process=1, pid=7, relays=["a", "b"])),
    (
        ProcessDied(1, 7, "a", -9, 0.234),
        logged("error", "process died", process=1, pid=7, relays=["a"], signal=9, again_in=0.23),
    ),
    (
        ProcessDied(1, 7, "a", 3, 0.234),
        logged("error", "process died", process=1, pid=7, relays=["a"], exit_code=3, again_in=0.23),
    ),
    (
        ProcessLost(2, "ab", 3),
        logged(
            "error",
            "fatal",
            error="each relay of process 2 has ended in an error: a, b",
            hint="the log has the error of each as `fatal`; remove the causes and restart",
            page="walrelay docs runbook#ended",
            process=2,
            others_running=3,
        ),
    ),
    (DatabaseFound(), logged("info", "database found")),
    (
        DatabaseGone(),
        logged("warning", "database gone", consequence="its slot stays, and keeps WAL until it is dropped"),
    ),
    (NotStarted("no slot", 30.0), logged("error", "not started", cause="no slot", again_in=30.0)),
]


@pytest.mark.parametrize(("happening", "line"), LINES)
def test_an_event_has_its_name_its_fields_and_its_level(
    happening: Happening, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("json", "debug")
    logs.LogObserver(relay="r").saw(happening)
    assert re.sub(r', "timestamp": "[^"]*"', "", capsys.readouterr().err).strip() == line


def test_every_happening_is_among_them() -> None:
    assert {type(happening) for happening, _ in LINES} == {*get_args(Happening)}


def test_progress_is_logged_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("walrelay.telemetry.logs.monotonic", lambda: now)
    logs.configure("json", "info")
    observer = logs.LogObserver()
    for _ in range(25):
        observer.saw(Relayed(2, 3))
        now += 1
        observer.saw(Confirmed(HERE, 0))
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(each["event"], each["records"], each["messages"]) for each in events] == [("relayed", 20, 30)] * 2


def test_a_command_in_a_hint_can_be_pasted_from_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("console", "info")
    logs.LogObserver(slot="s").saw(EndedFatally(ERROR))
    *_, error, hint, page = capsys.readouterr().err.splitlines()
    assert error == f"error: {ERROR}"
    assert hint == f"hint: {ERROR.hint}"
    assert page == f"page: walrelay docs runbook#{ERROR.page}"
