"""What systemd is told of a process, and of several as one; and that no relay ends because of it."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.seen import Seen
from tests.servers.waiting import wait_until
from tests.unit.telemetry.relays import STREAMING, seen, view
from walrelay.errors import Fatal
from walrelay.observe import EndedFatally, Noticed
from walrelay.telemetry.instruments import RelayView
from walrelay.telemetry.systemd import SystemdNotifier

OVER = 90.0  # seconds: nothing here takes as long

PROCESSES = """
import os, signal, socket, sys, time
from walrelay.cli.processes import Processes, Work, obey
from walrelay.supervise import Backoff, Stop

class Seen:
    def saw(self, happening):
        pass

def work(name):
    def run(orders):
        stop = Stop()
        obey(orders, stop, lambda: os._exit(9))
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        tell = lambda text: told.sendto(text.encode(), "\\0" + os.environ["NOTIFY_SOCKET"][1:])
        tell("READY=1")
        tell(f"STATUS={name} streams")
        if name == "dies":
            tell("STOPPING=1")
            return 1
        while not stop.wait(0.05):
            tell("WATCHDOG=1")
        return 0
    return run

sys.exit(Processes([Work([name], work(name)) for name in sys.argv[1:]], Seen(), Backoff(0.01, 0.01)).run())
"""


class Systemd:
    """Hears what is said, as systemd would."""

    def __init__(self, place: Path) -> None:
        self.name, self._socket = str(place / "notify"), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.name)
        self._socket.settimeout(OVER)

    def close(self) -> None:
        self._socket.close()

    def hear(self, *texts: str) -> list[str]:
        """What is said before one of these."""
        told = list[str]()
        while (said := self._socket.recv(10_000).decode()) not in texts:
            told.append(said)
        return told


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path)
    yield made
    made.close()


def notifier(name: str, views: list[RelayView], heard: Seen | None = None, **more: str) -> SystemdNotifier:
    env = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "60000", **more}
    return SystemdNotifier(env, lambda: views, 60.0, heard or Seen())


def test_an_error_of_several_lines_is_a_status_of_one(systemd: Systemd) -> None:
    """Or its lines would be messages of their own."""
    ended = view(seen(EndedFatally(Fatal("no\nMAINPID=1\udcff " + "x" * 100_000))))
    with notifier(systemd.name, [ended]):
        before = systemd.hear("READY=1")
        status = systemd._socket.recv(10_000).decode()
    assert status.startswith("STATUS=failed, waits for operator: no MAINPID=1\\udcff xxx")
    assert len(status) < 600
    assert before == []


def test_the_watchdog_is_fed_where_it_cannot_be_found_out_how_the_relays_are(systemd: Systemd) -> None:
    broken, heard = view(seen(STREAMING))._replace(numbers=None), Seen()  # type: ignore[arg-type]
    with notifier(systemd.name, [broken], heard):
        systemd.hear("WATCHDOG=1")
        systemd.hear("WATCHDOG=1")
    assert heard.of(Noticed)[0].text.startswith("systemd cannot be told: AttributeError")
    systemd.hear("STOPPING=1")


def test_a_loop_that_hangs_is_not_fed(systemd: Systemd) -> None:
    hangs = seen(STREAMING)
    hangs.turned_at -= 61
    with notifier(systemd.name, [view(hangs)]):
        before = systemd.hear("STATUS=streaming, waits for relay: the loop does not turn: it is busy, or hangs")
    assert "WATCHDOG=1" not in before


@pytest.mark.parametrize("name", ["/nowhere/at/all", "@nobody-listens-there", "x" * 1_000, "vsock:2:1234", "@"])
def test_a_systemd_that_is_not_there_is_no_error(name: str) -> None:
    heard = Seen()
    with notifier(name, [view(seen(STREAMING))], heard):
        wait_until(lambda: any(each.name == "systemd" for each in threading.enumerate()), OVER, "its thread")
    assert heard.of(Noticed) == []


@pytest.mark.parametrize("watchdog", ["", "0", "-1", "never", "²"])
def test_a_watchdog_that_is_none_is_fed_now_and_then(systemd: Systemd, watchdog: str) -> None:
    with notifier(systemd.name, [view(seen(STREAMING))], WATCHDOG_USEC=watchdog):
        systemd.hear("READY=1")


def test_several_processes_are_one_unit(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them ends for good, and says that it stops; the unit does not."""
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.name)
    monkeypatch.setenv("WATCHDOG_USEC", "3000000")
    with subprocess.Popen([sys.executable, "-c", PROCESSES, "a", "dies", "b"]) as parent:
        before, both = systemd.hear("READY=1"), ("STATUS=a streams; b streams", "STATUS=b streams; a streams")
        told = [] if {*before} & {*both} else systemd.hear(*both)
        for _ in range(3):
            told += systemd.hear("WATCHDOG=1")
        parent.terminate()
        told += systemd.hear("STOPPING=1")
        assert parent.wait(OVER) == 1, "one of them had ended in an error"
    assert not any(each.startswith(("READY", "STOPPING")) for each in before + told)
