"""`python -m tests.bench.peers.matrix`: what walrelay and Debezium Server make of crashes, outages and a bad row."""

import argparse
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.bench.peers import matrix_crashes, matrix_outages
from tests.bench.peers.choice import names
from tests.bench.peers.contract import NotRun, Peer, Variant
from tests.bench.peers.debezium import DebeziumServer
from tests.bench.peers.matrix_outcome import Outcome
from tests.bench.peers.matrix_report import Cell, read, render, replaced, write
from tests.bench.peers.matrix_stage import Stage, stage
from tests.bench.peers.walrelay_peer import Walrelay
from tests.servers.kafka_jars import kafka_home


class Contender(NamedTuple):
    """A column of the matrix."""

    peer: Peer
    variant: Variant


CASES: dict[str, Callable[[Stage], Outcome]] = {
    "copy": matrix_crashes.copy,
    "idle": matrix_outages.idle,
    "walsender": matrix_crashes.walsender,
    "restart-fast": matrix_crashes.restart_fast,
    "restart-immediate": matrix_crashes.restart_immediate,
    "broker": matrix_outages.broker,
    "unroutable": matrix_outages.unroutable,
    "unknown-topic": matrix_outages.unknown_topic,
}

TOOLS = {
    "walrelay": Contender(Walrelay(), "tuned"),
    "debezium-server": Contender(DebeziumServer(), "tuned"),
    "debezium-server-documented": Contender(DebeziumServer(), "documented"),
}


def main() -> None:
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "matrix.json"
    cells = read(file)
    for name in arguments.tools:
        for case in arguments.only:
            cells = replaced(cells, _run(case, name, arguments.out))
            write(file, cells)
            _say(_table([cells[-1]]))
    file.with_suffix(".md").write_text(_table(cells))
    _say(f"written to {file} and {file.with_suffix('.md')}")


def _run(case: str, name: str, out: Path) -> Cell:
    contender = TOOLS[name]
    date, version = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", ""
    try:
        version = contender.peer.install(kafka_home(os.environ).parent / "peers")
        with stage(contender.peer, contender.variant, out / "logs" / f"matrix-{case}-{name}.log") as set_up:
            return Cell(case, name, version, date, CASES[case](set_up))
    except NotRun as reason:
        return Cell(case, name, version, date, None, str(reason))
    except Exception as error:  # the other cases go on
        return Cell(case, name, version, date, None, f"{type(error).__name__}: {error}"[:500])


def _table(cells: list[Cell]) -> str:
    return render(cells, {case: _first_line(function) for case, function in CASES.items()}, list(TOOLS))


def _first_line(function: Callable[[Stage], Outcome]) -> str:
    return (function.__doc__ or "").partition("\n")[0]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers.matrix", description=__doc__)
    parser.add_argument("--only", type=names(CASES), default=[*CASES], metavar="CASES", help=", ".join(CASES))
    parser.add_argument("--tools", type=names(TOOLS), default=[*TOOLS], metavar="TOOLS", help=", ".join(TOOLS))
    parser.add_argument("--out", type=Path, default=Path("build/peers"), help="for matrix.json, matrix.md and logs")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
