"""The tables of the terminal, as they are printed."""

import io
import math

import pytest
from rich.console import Console, ConsoleRenderable

from tests.unit.lab.bench import samples
from walrelay.lab.bench import screen
from walrelay.lab.bench.results import Cost


def _printed(shown: ConsoleRenderable, width: int = 100, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=width).print(shown)
    file.seek(0)
    return file.read()


def _row(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(name))


def test_a_strategy_has_its_percentiles_how_many_times_slower_it_is_and_what_went_wrong() -> None:
    text = _printed(screen.latency_tables(samples.latency()))
    assert _row(text, "walrelay")[:7] == ["walrelay", "1.4", "2.6", "6.2", "33.6", "1×", "0"]
    assert _row(text, "polling-1s")[:7] == ["polling-1s", "512", "911", "1,007", "1,072", "366×", "0"]
    assert _row(text, "polling-5s")[6] == "3/0/0"


def test_costs_are_those_of_1000_events_and_of_an_idle_minute() -> None:
    text = _printed(screen.latency_tables(samples.latency()))
    assert "polling-100ms            205  408 KB        1,000     212" in text
    assert "polling-100ms          1,800       0            0     298" in text
    assert "the writer alone           –  598 KB            0     184" in text


def test_the_worker_has_its_cpu_its_memory_and_how_soon_it_is_there() -> None:
    text = _printed(screen.latency_tables(samples.latency()))
    assert _row(text[text.index("What the worker took") :], "walrelay") == [
        "walrelay",
        "583",
        "0.20",
        "60",
        "MB",
        "0.71",
    ]


def test_an_idle_minute_that_was_not_measured_is_said_to_be_so() -> None:
    text = _printed(screen.latency_tables(samples.latency([samples.WALRELAY._replace(idle_minute=None)])))
    assert "per idle minute" not in text
    assert "What an idle minute costs was not measured" in text


def test_a_reader_has_its_rate_its_share_of_the_limit_and_what_it_took() -> None:
    text = _printed(screen.throughput_tables(samples.throughput()))
    assert _row(text, "walrelay → Kafka")[3:11] == ["98,205", "91,300", "to", "99,017", "0.73", "8.6", "7.0", "71"]
    assert _row(text, "polling → mock Kafka")[4:9] == ["4,481", "–", "0.03", "120", "–"]
    assert "Not run: walrelay → mock, wal2json: could not access file" in text


@pytest.mark.parametrize("width", [100, 80])
def test_no_line_is_too_long_and_nothing_is_cut_off(width: int) -> None:
    for shown in (screen.latency_tables(samples.latency()), screen.throughput_tables(samples.throughput())):
        text = _printed(shown, width)
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text


def test_bars_are_as_long_as_there_is_room() -> None:
    assert "━━━" in _row(_printed(screen.latency_tables(samples.latency()), 100), "walrelay")[-1]
    assert _row(_printed(screen.latency_tables(samples.latency()), 74), "walrelay")[-1] == "0"


def test_the_longest_bar_is_that_of_the_slowest_strategy() -> None:
    text = _printed(screen.latency_tables(samples.latency()), 100)
    lengths = {each.name: len(_row(text, each.name)[-1]) for each in samples.STRATEGIES}
    assert max(lengths, key=lambda name: lengths[name]) == "polling-5s"


def test_what_is_unknown_is_a_dash_and_never_nan() -> None:
    nothing = Cost(None, None, None, None)
    silent = samples.strategy("polling-1s", (math.nan,) * 4, broken=(6000, 0, 0), per_1000=nothing)
    text = _printed(screen.latency_tables(samples.latency([samples.WALRELAY, silent])))
    assert _row(text, "polling-1s")[:7] == ["polling-1s", "–", "–", "–", "–", "–", "6,000/0/0"]
    assert "nan" not in text.lower()
    assert "None" not in text


def test_a_terminal_that_knows_only_ascii_gets_only_ascii() -> None:
    for shown in (screen.latency_tables(samples.latency()), screen.throughput_tables(samples.throughput())):
        assert _printed(shown, encoding="ascii").isascii()


def test_walrelay_alone_can_be_shown() -> None:
    assert _row(_printed(screen.latency_tables(samples.latency([samples.WALRELAY]))), "walrelay")[1] == "1.4"
