"""Options that several commands share."""

from pathlib import Path

import click

config_option = click.option(
    "-c",
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=Path("walrelay.yaml"),
    envvar="WALRELAY_CONFIG",
    show_default=True,
    show_envvar=True,
    help="The settings file.",
)
"""The command gets it as `config_path: Path`. Whether the file is there is for `config.load` to say, with a hint."""
