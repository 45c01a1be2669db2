"""Whatever is typed and whatever a settings file says: a documented exit code, a message, and no bug to be reported."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from walrelay.cli import ending, main
from walrelay.config import Settings, parse
from walrelay.errors import SettingsError
from walrelay.supervise import Stop

ODD = (
    *(
        "",
        "-1",
        "0",
        "1",
        "nan",
        "inf",
        "1e400",
        "9" * 30,
        "7d",
        "9" * 20 + "w",
        "0/1",
        "0/1..0/2",
        "FFFFFFFF/FFFFFFFF:2147483647",
        "9/80000000..A/0",
        "A..B",
        "x:y",
        "--",
    ),
    *("0001-01-01", "9999-12-31T23:59:59-14:00", "2026-11-21", "\udcff", "é", "*", "a" * 300, "waiting", "-c", "--"),
)
VALUES = st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_characters="\0"), max_size=8))
"""As the operating system can hand them over: any bytes but zero, those that are not UTF-8 as surrogates."""

UNREACHABLE = "source: {dsn: 'postgresql://nobody@127.0.0.1:1/nothing'}\nsink: {kind: memory}\n"


def leaves(command: click.Command, *path: str) -> list[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        below = ((name, command.get_command(context, name)) for name in command.list_commands(context))
        return [leaf for name, each in below if each is not None for leaf in leaves(each, *path, name)]
    return [(path, command)]


COMMANDS = leaves(main)
TOURS = ("demo", "bench")
NOWHERE = ("--dsn", "postgresql://nobody@127.0.0.1:1/nothing", "--bootstrap-servers", "127.0.0.1:1")
"""What a tour is told last, whatever was typed before: it would begin otherwise."""


class OneTry(Stop):
    """A signal that comes when the relay, which would try for ever, waits for the first time."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    path, command = draw(st.sampled_from(COMMANDS))
    words = [*path]
    for parameter in draw(st.lists(st.sampled_from(command.params), max_size=4)) if command.params else ():
        if isinstance(parameter, click.Option) and "--config" not in parameter.opts:
            words.append(parameter.opts[-1])
            words += [] if parameter.is_flag else [draw(VALUES)]
        elif isinstance(parameter, click.Argument):
            words.append(draw(VALUES))
    return [*words, *draw(st.lists(VALUES, max_size=1)), *(NOWHERE if path[0] in TOURS else ())]


def ended(words: list[str]) -> tuple[object, str]:
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    code: object = None
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("sys.stdin", io.StringIO(""))
        patch.setattr(sys.modules["walrelay.cli.run"], "signalled", lambda leaving: OneTry())
        try:
            main(words)
        except SystemExit as end:
            code = end.code
    err.seek(0)
    return code, err.read()


@pytest.fixture
def unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("walrelay.yaml").write_text(UNREACHABLE)


@pytest.mark.usefixtures("unreachable")
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=command_lines())
def test_every_command_line_ends_with_a_documented_exit_code(words: list[str]) -> None:
    interval = sys.getswitchinterval()
    code, told = ended(words)
    sys.setswitchinterval(interval)  # which the demo sets for its process
    assert code in (ending.DONE, ending.FAILED, ending.USAGE), (words, told)
    assert "Traceback" not in told, words
    assert "this is a bug in walrelay" not in told, (words, told)


@pytest.mark.usefixtures("unreachable")
@pytest.mark.parametrize("words", [("run",), ("docs",), ("demo", *NOWHERE), ("bench", "latency", *NOWHERE)])
def test_what_begins_something_ends_where_no_server_is(words: tuple[str, ...]) -> None:
    code, told = ended([*words])
    assert code == (ending.DONE if words[0] in ("run", "docs") else ending.FAILED)
    assert ("127.0.0.1:1/nothing" in told) == (words[0] != "docs")


@pytest.mark.usefixtures("unreachable")
@pytest.mark.parametrize(
    "words",
    [
        ("skip", "--position", "FFFFFFFF/FFFFFFFF"),
        ("skip", "--position", "0/80000000:3"),
        ("replay", "--position", "0/80000000..A/0"),
    ],
)
def test_a_position_is_taken_however_far_the_server_has_written(words: tuple[str, ...]) -> None:
    code, told = ended([*words, "--yes"])
    assert code == ending.FAILED, told  # nobody answers; the words were understood


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), st.sampled_from(["7d", "${X}", "file:/"])
)
KEYS = st.text(max_size=6)
TREES = st.recursive(
    PLAIN, lambda deeper: st.one_of(st.lists(deeper, max_size=3), st.dictionaries(KEYS, deeper, max_size=3))
)


def sections(model: type) -> st.SearchStrategy[object]:
    """A mapping with some of the known keys, and whatever below them."""
    known = st.sampled_from([*model.model_fields])  # type: ignore[attr-defined]
    return st.dictionaries(st.one_of(known, st.text(max_size=4)), st.one_of(TREES, st.dictionaries(known, TREES)))


@given(value=st.one_of(sections(Settings), TREES))
def test_every_tree_of_values_is_settings_or_a_list_of_problems(value: object) -> None:
    _accepted(json.dumps(value))


@given(text=st.text())
def test_every_text_is_settings_or_a_list_of_problems(text: str) -> None:
    _accepted(text)


@given(at=st.integers(0, 10_000), put=st.text(max_size=3), gone=st.integers(0, 5))
def test_a_damaged_example_is_settings_or_a_list_of_problems(at: int, put: str, gone: int) -> None:
    whole = (Path(__file__).parents[2] / "walrelay" / "config" / "example.yaml").read_text()
    at %= len(whole)
    _accepted(whole[:at] + put + whole[at + gone :])


def _accepted(text: str) -> None:
    told = "walrelay.yaml:"
    try:
        parse(text, "walrelay.yaml", {"DATABASE_URL": "postgresql://localhost/shop", "X": "\udcff"})
    except SettingsError as error:
        told = str(error)
    assert all(line.startswith("walrelay.yaml:") for line in told.split("\n")), told
