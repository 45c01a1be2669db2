"""`walrelay admin`: the admin API in a process of its own, and tokens for those who may ask it."""

import json
from contextlib import closing
from functools import partial
from pathlib import Path

import click

from walrelay.cli.chosen import Chosen
from walrelay.cli.ending import show_traceback, signalled
from walrelay.cli.options import config_option
from walrelay.config import load_databases, load_relays
from walrelay.config.admin import AdminSettings
from walrelay.config.models import LogSettings
from walrelay.errors import Fatal
from walrelay.observe import Noticed
from walrelay.observe.processes import Listening
from walrelay.telemetry import logs
from walrelay.unforeseen import explained

_SCOPES = ("read", "operate", "admin")


@click.group(invoke_without_command=True)
@config_option
@click.pass_context
def admin(ctx: click.Context, config_path: Path) -> None:
    """Serve the admin API, or make a token for it.

    Without a command it serves the API, for all relays of the file, until SIGTERM or Ctrl-C. It runs beside `walrelay
    run`, on the same machine or another: `walrelay docs admin`.

    \b
    Example:
      walrelay admin -c walrelay.yaml
      curl http://127.0.0.1:8642/api/v1/relays
      walrelay admin token grafana --scope read
    """
    if ctx.invoked_subcommand is None:
        _serve(config_path)


@admin.command()
@click.argument("name")
@click.option("--scope", type=click.Choice(_SCOPES), default="read", show_default=True, help="What it allows.")
def token(name: str, scope: str) -> None:
    """Make a token, and the line for the settings.

    The token itself is on stdout, and shown only once; the settings have its hash.

    \b
    Example:
      walrelay admin token grafana
      walrelay admin token oncall --scope operate
    """
    from pydantic import ValidationError

    from walrelay.admin.access import new_token
    from walrelay.config.admin import AdminToken

    made = new_token()
    try:
        AdminToken.model_validate({"name": name, "sha256": made.sha256, "scope": scope})
    except ValidationError as error:
        raise click.BadParameter(str(error.errors()[0]["ctx"]["error"]), param_hint="NAME") from None
    click.echo(
        f"# for admin.tokens of the settings:\n- {{name: {json.dumps(name)}, sha256: {made.sha256}, scope: {scope}}}",
        err=True,
    )
    click.echo(made.token)


def _serve(path: Path) -> None:
    log, settings = _of_process(path)
    logs.configure(log.format, log.level)
    try:
        from walrelay.admin import app, jobs, relays, server, watching
    except ImportError as error:
        if (error.name or "").startswith("walrelay"):
            raise
        raise Fatal(
            f"the admin API needs {error.name}, which is missing", hint="pip install 'walrelay[admin]'"
        ) from None
    observer = logs.LogObserver()

    def bug(error: Exception) -> None:
        show_traceback(error)
        observer.saw(Noticed(str(explained(error))))

    found = relays.AdminRelays(path, settings, partial(_arguments, path))
    with relays.serving(found), server.listening(settings) as listener:
        found.found()
        stop = signalled()
        observer.saw(Listening(settings.address[0], listener.getsockname()[1]))
        with closing(jobs.Jobs()) as at_work, watching.AdminWatch(found, settings.sample_interval) as watch:
            whole = app.guarded(found, at_work, watch, settings, bug)
            server.serve(whole, settings, listener, stop, watch.leave)


def _of_process(path: Path) -> tuple[LogSettings, AdminSettings]:
    databases = load_databases(path)
    if databases is not None:
        return databases.log, databases.admin
    shared = next(iter(load_relays(path).values()))
    return shared.log, shared.admin


def _arguments(path: Path, name: str) -> str:
    return Chosen(path, name).arguments
