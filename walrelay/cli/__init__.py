"""The command line: one command a module, thin. `cli.ending` has the exit codes."""

import sys
from functools import partial
from typing import Any

import click

from walrelay import __version__
from walrelay.cli import ending, streams
from walrelay.cli.audit import audit
from walrelay.cli.bench import bench
from walrelay.cli.cleanup import cleanup
from walrelay.cli.config import config
from walrelay.cli.demo import demo
from walrelay.cli.dlq import dlq
from walrelay.cli.docs import docs
from walrelay.cli.doctor import doctor
from walrelay.cli.drop import drop
from walrelay.cli.init import init
from walrelay.cli.options import guarded
from walrelay.cli.recover import recover
from walrelay.cli.replay import replay
from walrelay.cli.run import run
from walrelay.cli.skip import skip
from walrelay.cli.status import status
from walrelay.cli.tail import tail
from walrelay.telemetry import logs


class _Commands(click.Group):
    """Ends the process itself, with a message and an exit code, whatever happened (see `cli.ending`)."""

    def main(self, *arguments: Any, standalone_mode: bool = True, **options: Any) -> Any:
        run = partial(super().main, *arguments, standalone_mode=False, **options)
        if not standalone_mode:
            return run()
        streams.prepare()
        logs.configure("auto", "warning")  # what a command says besides its output, until it reads its settings
        sys.exit(ending.exit_code(run))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="walrelay")
def main() -> None:
    """Publish a PostgreSQL outbox to a broker: tails the WAL, in commit order, confirmed only when durable.

    \b
    Example:
      walrelay config example > walrelay.yaml
      walrelay init
      walrelay doctor
      walrelay run
    """


for command in (
    init,
    doctor,
    run,
    status,
    tail,
    cleanup,
    replay,
    audit,
    recover,
    dlq,
    skip,
    drop,
    config,
    docs,
    demo,
    bench,
):
    main.add_command(guarded(command))
