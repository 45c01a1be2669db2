"""`walrelay config`: check the settings file, write one to start from, print its schema."""

import json
from pathlib import Path

import click

from walrelay.cli.chosen import several_option
from walrelay.cli.options import config_option
from walrelay.config import load_relays, presets
from walrelay.config.documentation import example as example_text
from walrelay.config.documentation import json_schema


@click.group()
def config() -> None:
    """Check the settings file, print an example or its JSON Schema.

    \b
    Example:
      walrelay config example > walrelay.yaml
      walrelay config check
    """


@config.command()
@config_option
@several_option
def check(config_path: Path, relay_names: tuple[str, ...]) -> None:
    """Report every problem in the settings file, with its line. Connects to nothing, except for a query of `databases`.

    \b
    Example:
      DATABASE_URL=postgresql://walrelay@localhost/shop walrelay config check -c walrelay.yaml
    """
    relays = ", ".join(load_relays(config_path, relay_names))
    click.echo(f"{config_path}: no problems" + (f" in {relays}" if relays else ""))


@config.command()
@click.option(
    "--preset", type=click.Choice(presets.NAMES), default="walrelay", help="For the outbox of another worker."
)
def example(preset: presets.PresetName) -> None:
    """Print a commented settings file to start from.

    It works once DATABASE_URL is set.

    \b
    Example:
      walrelay config example > walrelay.yaml
      walrelay config example --preset event-log
    """
    click.echo(example_text(preset), nl=False)


@config.command()
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors.

    \b
    Example:
      walrelay config schema > walrelay.schema.json
      # first line of walrelay.yaml, for editors with the YAML language server:
      # yaml-language-server: $schema=walrelay.schema.json
    """
    click.echo(json.dumps(json_schema(), indent=2))
