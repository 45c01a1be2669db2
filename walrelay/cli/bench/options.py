"""Options that both benchmarks share, and what both do around a measurement."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from walrelay.cli.sinks_of_tours import require_packages
from walrelay.lab.servers.backstage import Interrupted, Interruption

Command = TypeVar("Command", bound=Callable[..., Any])

_DIRECTORY = click.Path(path_type=Path, file_okay=False)
_THERE = click.Path(path_type=Path, file_okay=False, exists=True)


def server_options(command: Command) -> Command:
    """The fields of walrelay.lab.bench.machine.Servers, under their names."""
    for option in (
        click.option(
            "--kafka-home",
            type=_THERE,
            help="Apache Kafka's directory; otherwise $KAFKA_HOME, or that of `make servers`.",
        ),
        click.option("--bootstrap-servers", help="Use this Kafka cluster instead of a temporary one."),
        click.option("--postgres-bin", type=_THERE, help="A directory with initdb and postgres, for its own server."),
        click.option("--dsn", help="Use this PostgreSQL instead of a temporary one."),
    ):
        command = option(command)
    return command


def output_options(command: Command) -> Command:
    """`as_json` and `report`, the directory or None."""
    for option in (
        click.option("--report", type=_DIRECTORY, help="Write a page and charts there.", metavar="DIR"),
        click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, everything else on stderr."),
    ):
        command = option(command)
    return command


def require(*packages: str, sinks: Sequence[str] = ()) -> None:
    """Fatal when a package is missing, or the client of one of those kinds of sinks."""
    require_packages("benchmark", "bench", sinks, *packages)


@contextmanager
def interruptible(ctx: click.Context) -> Iterator[Interruption]:
    """A signal ends the command with the exit code that a shell gives it, and what is inside tidies up first."""
    try:
        with Interruption() as interruption:
            yield interruption
    except Interrupted as interrupted:
        ctx.exit(interrupted.exit_code)


_SECRET = ("--dsn", "--sink-url")  # may hold a password


def command_line() -> str:
    """How the benchmark was asked for, without what an address may hold."""
    words, hidden = ["walrelay"], False
    for word in sys.argv[1:]:
        option, equals, _ = word.partition("=")
        words.append("..." if hidden else f"{option}=..." if equals and option in _SECRET else word)
        hidden = word in _SECRET
    return shlex.join(words)
