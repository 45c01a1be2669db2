"""What the consumer's handle reads from the file that its process writes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.peers.consumer import Arrivals, Event


@pytest.fixture
def process() -> Iterator["subprocess.Popen[str]"]:
    """Stands for the consumer's, and writes nothing."""
    command = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        yield running
        running.communicate()


def test_events_are_read_in_the_order_of_their_receipt(tmp_path: Path, process: "subprocess.Popen[str]") -> None:
    file = tmp_path / "arrivals"
    file.write_text("7\t1.500000\t0\t3\torder-7\n5\t1.600000\t2\t0\ta\tb\n")
    assert Arrivals(file, process).events() == [Event(7, 1.5, 0, 3, "order-7"), Event(5, 1.6, 2, 0, "a\tb")]


def test_a_message_without_a_number_is_no_event(tmp_path: Path, process: "subprocess.Popen[str]") -> None:
    file = tmp_path / "arrivals"
    file.write_text("-1\t1.5\t0\t3\t\n7\t1.6\t0\t4\t\n")
    arrivals = Arrivals(file, process)
    assert (arrivals.count(), len(arrivals.events()), arrivals.foreign()) == (1, 1, 1)


def test_an_event_that_arrives_twice_is_counted_once(tmp_path: Path, process: "subprocess.Popen[str]") -> None:
    file = tmp_path / "arrivals"
    file.write_text("7\t1.5\t0\t3\t\n7\t1.6\t0\t4\t\n")
    arrivals = Arrivals(file, process)
    assert (arrivals.count(), len(arrivals.events())) == (1, 2)


def test_a_half_written_line_waits_for_its_other_half(tmp_path: Path, process: "subprocess.Popen[str]") -> None:
    file = tmp_path / "arrivals"
    file.write_text("7\t1.5\t0\t3\tk\n1")
    arrivals = Arrivals(file, process)
    assert (arrivals.count(), len(arrivals.events())) == (1, 1)
    with file.open("a") as more:
        more.write("8\t1.6\t0\t4\tk\n")
    assert arrivals.count() == 2
    assert arrivals.events()[-1].number == 18


def test_nothing_has_arrived_yet(tmp_path: Path, process: "subprocess.Popen[str]") -> None:
    file = tmp_path / "arrivals"
    file.touch()
    assert (Arrivals(file, process).count(), Arrivals(file, process).events()) == (0, [])


def test_a_consumer_that_ended_is_not_taken_for_silence(tmp_path: Path, process: "subprocess.Popen[str]") -> None:
    file = tmp_path / "arrivals"
    file.touch()
    process.communicate()
    with pytest.raises(RuntimeError, match="the consumer ended"):
        Arrivals(file, process).count()
