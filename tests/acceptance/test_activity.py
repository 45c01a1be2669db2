"""`walrelay events` and `walrelay top` beside a relay that runs, as the installed commands."""

import json
import os
import pty
import select
import signal
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest

from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY
from tests.servers.waiting import wait_until


def events(deployment: Deployment, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in deployment.command("events", "--json", *options).splitlines()]


@pytest.fixture
def ids(deployment: Deployment) -> list[str]:
    """Of two events that a relay has published, which goes on."""
    relay = deployment.start()
    relay.wait_for("streaming")
    ids = deployment.write('"secret payload"', "2", key="a\x1b[2J")
    deployment.catch_up()
    return ids


def test_events_say_where_each_event_is_and_when_it_was_durable(deployment: Deployment, ids: list[str]) -> None:
    wait_until(lambda: all(each["confirmed_at"] for each in events(deployment)), 30, "both events to be confirmed")
    first, second = events(deployment)
    assert [first["id"], second["id"]] == ids
    times = [first[f"{step}_at"] for step in ("committed", "read", "published", "acknowledged", "confirmed")]
    assert times[1:] == sorted(times[1:])
    assert (first["topic"], first["payload"]) == (deployment.topic, None)
    assert [each["id"] for each in events(deployment, "--id", ids[1])] == ids[1:]
    assert [each["id"] for each in events(deployment, "--limit", "1")] == ids[1:]
    assert events(deployment, "--topic", "other*") == []
    printed = deployment.command("events")
    assert [line.split()[1] for line in printed.splitlines()] == ids
    assert "durable after" in printed
    assert "\x1b" not in printed, "a key is of the event, and no terminal obeys it"
    assert "secret" not in printed


def test_followed_events_come_as_they_are_published(deployment: Deployment, ids: list[str]) -> None:
    command = [str(WALRELAY), "events", "--follow", "--json", "--config", str(deployment.config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as following:
        try:
            assert following.stdout is not None
            seen = [json.loads(following.stdout.readline())["id"] for _ in ids]
            more = deployment.write("3")
            seen.append(json.loads(following.stdout.readline())["id"])
            assert seen == ids + more
        finally:
            following.terminate()
    assert following.returncode == 0


def test_top_shows_a_table_where_there_is_no_terminal(deployment: Deployment, ids: list[str]) -> None:
    (line,) = deployment.command("top", "--json").splitlines()
    shown = json.loads(line)
    expected = {"slot": deployment.slot_name, "state": "streaming", "in_flight": 0, "published_per_second": 0.0}
    assert expected.items() <= shown.items()
    assert shown["latency"]["p50"] > 0
    heading, row = deployment.command("top").splitlines()
    assert heading.split()[:4] == ["relay", "state", "ev/s", "B/s"]
    assert row.split()[:3] == [deployment.slot_name, "streaming", "0"]


def test_without_a_relay_top_says_so_and_events_have_nobody_to_ask(deployment: Deployment) -> None:
    assert "walrelay run" in deployment.said("events", exit_code=1)
    assert json.loads(deployment.command("top", "--json", "--interval", "0.5"))["level"] == "critical"
    deployment.database.execute("DROP TABLE walrelay.activity, walrelay.relays")
    assert "walrelay init" in deployment.said("events", exit_code=1)
    assert json.loads(deployment.command("top", "--json", "--interval", "0.5"))["in_flight"] is None


@contextmanager
def on_a_terminal(*command: object) -> Iterator[tuple[int, int, "subprocess.Popen[bytes]"]]:
    """Both ends of a terminal of 80 columns and 24 lines, and the process that has it."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    environment = {**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen([*map(str, command)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    try:
        yield ours, theirs, process
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def read_until(descriptor: int, words: bytes, seen: bytes = b"") -> bytes:
    until = monotonic() + 60
    while words not in seen:
        assert select.select([descriptor], [], [], max(0.0, until - monotonic()))[0], seen
        seen += os.read(descriptor, 65_536)
    return seen


@pytest.mark.parametrize("ending", [b"q", signal.SIGINT, signal.SIGTERM])
def test_top_on_a_terminal_fits_it_obeys_keys_and_leaves_it_as_it_was(
    deployment: Deployment, ids: list[str], ending: bytes | signal.Signals
) -> None:
    with on_a_terminal(WALRELAY, "top", "--config", deployment.config) as (ours, theirs, process):
        before = termios.tcgetattr(theirs)
        seen = read_until(ours, b"in flight")
        assert deployment.slot_name.encode()[:13] in seen
        last = seen.rpartition(b"\x1b[H")[2]
        assert last.count(b"\r\n") <= 23
        os.write(ours, b"s")
        read_until(ours, b"(state)")
        if isinstance(ending, bytes):
            os.write(ours, ending)
        else:
            process.send_signal(ending)
        read_until(ours, b"\x1b[?1049l")
        assert process.wait(30) == 0
        assert termios.tcgetattr(theirs) == before
