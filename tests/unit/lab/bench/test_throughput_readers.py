"""Readers of the backlog: how they are watched, and what they are given."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from walrelay.errors import Fatal
from walrelay.lab.bench.child import peak_rss_bytes
from walrelay.lab.bench.drain import UntilDrained
from walrelay.lab.bench.machine import cpu_s
from walrelay.lab.bench.readers import Peak, document, finished, is_walsender, pg_recvlogical, without_password
from walrelay.lab.servers.backstage import Backstage, Interruption
from walrelay.lsn import LSN
from walrelay.observe import Confirmed, Relayed, Streaming

linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="read in /proc")


@pytest.fixture
def backstage() -> Iterator[Backstage]:
    with Backstage(Interruption()) as stage:
        yield stage


def test_a_reader_that_fails_is_an_error_with_its_words(backstage: Backstage) -> None:
    child = backstage.start("the relay", [sys.executable, "-c", "import sys; sys.exit('no such slot')"])
    with pytest.raises(Fatal, match="the relay failed:\nno such slot"):
        finished(child, 10)


def test_what_a_reader_used_is_known_when_it_has_ended(backstage: Backstage) -> None:
    busy = "import time; end = time.process_time() + 0.1\nwhile time.process_time() < end: pass"
    usage = finished(backstage.start("busy", [sys.executable, "-c", busy]), 10)
    assert usage.ru_utime + usage.ru_stime >= 0.1


def test_whoever_looks_on_may_fail_and_the_reader_goes(backstage: Backstage) -> None:
    child = backstage.start("sleeper", ["sleep", "60"])

    def look() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        finished(child, 10, look)
    assert not child.running


@linux
def test_the_memory_of_a_small_program_is_not_that_of_its_large_parent(backstage: Backstage) -> None:
    ballast = b"x" * 2**26
    child = backstage.start("sleeper", ["sleep", "0.1"])
    peak = Peak(child.pid)
    finished(child, 10, peak.look)
    assert 0 < peak.bytes < 2**24
    assert len(ballast) < (peak_rss_bytes() or 0)


@linux
def test_a_process_that_is_no_walsender_is_not_taken_for_one() -> None:
    assert not is_walsender(os.getpid())
    assert not is_walsender(2**30)
    assert cpu_s(2**22) is None  # pids are below that


def test_the_relay_stops_once_the_end_is_confirmed() -> None:
    watch = UntilDrained(LSN(100))
    watch.saw(Streaming("slot", LSN(1), "pgoutput"))
    watch.saw(Relayed(3, 3))
    watch.saw(Confirmed(LSN(99), 1))
    assert not watch.stop.is_set()
    watch.saw(Confirmed(LSN(100), 0))
    assert watch.stop.is_set()
    assert watch.events == 3
    assert watch.clock.seconds > 0


def test_the_settings_of_a_reading_have_no_secret() -> None:
    assert document("a_slot", {"kind": "memory"}, binary=True)["source"]["dsn"] == "${DATABASE_URL}"


def test_a_password_does_not_stand_on_a_command_line() -> None:
    dsn, environment = without_password("postgresql://me:s3cret@example.org:5433/shop?sslmode=require")
    assert environment == {"PGPASSWORD": "s3cret"}
    assert sorted(dsn.split()) == ["dbname=shop", "host=example.org", "port=5433", "sslmode=require", "user=me"]


def test_pg_recvlogical_is_looked_for_beside_the_server_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Fatal, match="there is no pg_recvlogical"):
        pg_recvlogical(None, tmp_path)
    (tmp_path / "pg_recvlogical").touch(mode=0o755)
    (tmp_path / "bin").mkdir()
    assert pg_recvlogical(tmp_path / "bin") == tmp_path / "pg_recvlogical"
    (tmp_path / "bin" / "pg_recvlogical").touch()
    assert pg_recvlogical(None, tmp_path / "bin") == tmp_path / "bin" / "pg_recvlogical"
