"""`python -m tests.bench.peers`: every peer drains a backlog, relays a steady trickle, is killed; then the report."""

import argparse
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from tests.bench.peers import results
from tests.bench.peers.bench import servers
from tests.bench.peers.choice import names
from tests.bench.peers.comparison import MEASUREMENTS, Choice, carry_out, say
from tests.bench.peers.contract import Peer, Variant
from tests.bench.peers.measure import Plan
from tests.bench.peers.registry import peers
from tests.bench.peers.report import render
from tests.servers.kafka_jars import kafka_home

_VARIANTS: tuple[Variant, ...] = get_args(Variant)


def main() -> None:
    arguments = _arguments()
    if arguments.report_only:
        runs = [results.read(file) for file in arguments.report_only]
        sys.stdout.write(render(sorted(runs, key=lambda run: run.date)))
        return
    file = arguments.out / f"results-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    plan = Plan(rows=arguments.rows, cap=arguments.cap, rate=arguments.rate, seconds=arguments.seconds)
    choice = Choice(arguments.only, arguments.variants, arguments.measurements, arguments.rounds)
    with servers(arguments.out, arguments.cache) as bench:
        run = results.new_run(bench, plan, f"python -m tests.bench.peers {shlex.join(sys.argv[1:])}".strip())
        carry_out(bench, choice, plan, run, file)
    table = render([run])
    file.with_suffix(".md").write_text(table)
    sys.stdout.write(table)
    say(f"written to {file} and {file.with_suffix('.md')}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("--only", type=_peers, default=peers(), metavar="NAMES", help="peers, with commas between")
    parser.add_argument("--variants", type=names(_VARIANTS), default=_VARIANTS, help="documented,tuned")
    parser.add_argument("--measurements", type=names(MEASUREMENTS), default=[*MEASUREMENTS], help="drain,latency,kill")
    parser.add_argument("--rows", type=int, default=Plan.rows, help="of the backlog")
    parser.add_argument("--cap", type=float, default=Plan.cap, help="seconds that draining it may take")
    parser.add_argument("--rate", type=float, default=Plan.rate, help="commits a second, for the latency")
    parser.add_argument("--seconds", type=float, default=Plan.seconds, help="of these commits")
    parser.add_argument("--rounds", type=int, default=1, help="of everything; the table has medians")
    parser.add_argument("--out", type=Path, default=Path("build/peers"), help="for results, table and logs")
    cache = kafka_home(os.environ).parent / "peers"
    parser.add_argument("--cache", type=Path, default=cache, help="for what peers install; may become a gigabyte")
    parser.add_argument("--report-only", type=Path, nargs="+", metavar="JSON", help="one table from earlier results")
    return parser.parse_args()


def _peers(text: str) -> list[Peer]:
    by_name = {peer.name: peer for peer in peers()}
    return [by_name[name] for name in names(by_name)(text)]


if __name__ == "__main__":
    main()
