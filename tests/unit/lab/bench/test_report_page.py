"""The report's files: complete, honest about what is missing, and without anything from outside."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.unit.lab.bench import samples
from walrelay.errors import Fatal
from walrelay.lab.bench.page import write_latency, write_throughput
from walrelay.lab.bench.results import Cost
from walrelay.lab.bench.wording import label, number

_NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
_PNG = b"\x89PNG\r\n\x1a\n"


class _Reading(HTMLParser):
    """The text of a page as it is shown, the tags that it has and what they refer to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.source = page.read_text(encoding="utf-8")
        self.words: list[str] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split()).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture(scope="module")
def latency(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_latency(samples.latency(), tmp_path_factory.mktemp("latency"))


@pytest.fixture(scope="module")
def throughput(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_throughput(samples.throughput(), tmp_path_factory.mktemp("throughput"))


def test_the_files_are_written_into_a_directory_that_need_not_be_there(tmp_path: Path) -> None:
    page = write_throughput(samples.throughput(), tmp_path / "build" / "bench")
    assert page == tmp_path / "build" / "bench" / "throughput.html"
    assert sorted(path.suffix for path in page.parent.iterdir()) == [".html", ".json", ".png", ".svg"]
    assert page.with_suffix(".png").read_bytes().startswith(_PNG)
    assert json.loads(page.with_suffix(".json").read_text()) == json.loads(json.dumps(samples.throughput().json()))


def test_a_file_for_which_there_is_no_room_is_named(tmp_path: Path) -> None:
    svg = tmp_path / "throughput.svg"
    svg.symlink_to("/dev/full")
    with pytest.raises(Fatal, match=f"the report {svg} cannot be written: No space left on device") as caught:
        write_throughput(samples.throughput(), tmp_path)
    assert "--report another directory" in caught.value.hint


@pytest.mark.parametrize("which", ["latency", "throughput"])
def test_the_page_stands_on_its_own(which: str, request: pytest.FixtureRequest) -> None:
    page = _Reading(request.getfixturevalue(which))
    assert set(re.findall(r"https?://[^\"' <)]+", page.source)) <= _NAMESPACES
    assert all(reference.startswith("#") for reference in page.references)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert "@import" not in page.source
    assert not re.search(r"url\((?!#)", page.source)


@pytest.mark.parametrize("which", ["latency", "throughput"])
def test_what_the_page_refers_to_is_there_once(which: str, request: pytest.FixtureRequest) -> None:
    page = _Reading(request.getfixturevalue(which))
    assert len(page.ids) == len(set(page.ids))
    assert {reference[1:] for reference in page.references} <= set(page.ids)


def test_every_strategy_and_its_numbers_are_on_the_page(latency: Path) -> None:
    text = _Reading(latency).text
    for strategy in samples.STRATEGIES:
        assert label(strategy.name) in text
        for value in (*strategy[1:5], strategy.per_1000.statements, strategy.per_1000.dead_tuples):
            assert number(value) in text
    assert "5 s: 3 lost" in text


def test_what_it_was_measured_on_is_on_the_page(latency: Path) -> None:
    text = _Reading(latency).text
    for said in ("2 cores", "7.8 GiB", "PostgreSQL 15.18", "Kafka 4.3.0", "200 commits/s", "2026-11-21"):
        assert said in text


def test_every_reader_and_who_could_not_run_are_on_the_page(throughput: Path) -> None:
    text = _Reading(throughput).text
    for run in samples.throughput().runs:
        assert label(run.name) in text
        assert number(run.events_per_second) in text
    for name, reason in samples.throughput().not_run:
        assert label(name) in text
        assert reason in text


def test_the_json_on_the_page_is_the_json_beside_it(latency: Path) -> None:
    shown = _Reading(latency).words
    assert latency.with_suffix(".json").read_text().strip() in [word.strip() for word in shown]


def test_what_is_shown_is_escaped(tmp_path: Path) -> None:
    result = samples.latency([samples.WALRELAY, samples.strategy("<b>&'x'$y$", (1.0, 2.0, 3.0, 4.0))])
    result = result._replace(command="walrelay bench </code><script>alert(1)</script>")
    page = _Reading(write_latency(result, tmp_path))
    assert "<b>&'x'$y$" in page.text
    assert "b" not in page.tags
    assert "script" not in page.tags


def test_what_is_unknown_is_a_dash_and_never_nan(tmp_path: Path) -> None:
    nothing = Cost(None, None, None, None)
    silent = samples.strategy("polling-1s", (math.nan,) * 4, broken=(6000, 0, 0), per_1000=nothing)
    page = write_latency(samples.latency([samples.WALRELAY, silent]), tmp_path)
    assert "–" in _Reading(page).text
    assert "nan" not in _Reading(page).text.lower()
    assert json.loads(page.with_suffix(".json").read_text())["strategies"][1]["p50_ms"] is None


def test_walrelay_alone_has_a_report_too(tmp_path: Path) -> None:
    text = _Reading(write_latency(samples.latency([samples.WALRELAY]), tmp_path)).text
    assert "within 1.4 ms of COMMIT." in text
    assert "polling" not in text


def test_so_has_a_run_without_walrelay(tmp_path: Path) -> None:
    text = _Reading(write_latency(samples.latency(samples.STRATEGIES[1:3]), tmp_path)).text
    assert "walrelay was not measured" in text


def test_the_best_of_a_column_is_marked_whoever_it_is(tmp_path: Path) -> None:
    quicker = samples.strategy("polling-notify", (0.7, 9.0, 12.0, 20.0))
    page = _Reading(write_latency(samples.latency([samples.WALRELAY, quicker]), tmp_path))
    assert '<td class="best">0.70</td>' in page.source
    assert "0.50 times as long" in page.text
