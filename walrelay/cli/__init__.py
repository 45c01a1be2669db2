"""The command line: one command a module, thin. Exit codes: 0 done, 1 fatal, 2 usage or settings."""

from typing import Any

import click

from walrelay import __version__
from walrelay.cli.audit import audit
from walrelay.cli.bench import bench
from walrelay.cli.cleanup import cleanup
from walrelay.cli.config import config
from walrelay.cli.demo import demo
from walrelay.cli.dlq import dlq
from walrelay.cli.doctor import doctor
from walrelay.cli.drop import drop
from walrelay.cli.init import init
from walrelay.cli.recover import recover
from walrelay.cli.replay import replay
from walrelay.cli.run import run
from walrelay.cli.skip import skip
from walrelay.cli.status import status
from walrelay.cli.tail import tail
from walrelay.errors import Fatal, SettingsError, WalrelayError


class _Commands(click.Group):
    """The one place where an error of walrelay's becomes a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except WalrelayError as error:
            if isinstance(error, SettingsError):  # its lines begin with file and line, which editors can follow
                click.secho(str(error), fg="red", err=True)
            else:
                click.secho(f"error: {error}", fg="red", err=True)
            if isinstance(error, Fatal) and error.hint:
                click.echo(f"hint: {error.hint}", err=True)
            ctx.exit(2 if isinstance(error, SettingsError) else 1)


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


for command in (init, doctor, run, status, tail, cleanup, replay, audit, recover, dlq, skip, drop, config, demo, bench):
    main.add_command(command)
