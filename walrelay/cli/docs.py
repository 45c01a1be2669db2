"""`walrelay docs`: the manual, which comes with the package."""

from importlib.resources.abc import Traversable

import click

from walrelay.ddl import shipped


def pages() -> dict[str, Traversable]:
    """The manual's pages by name, the guides among them."""
    docs = shipped("docs")
    files = [*docs.iterdir(), *docs.joinpath("guides").iterdir()]
    return {file.name.removesuffix(".md"): file for file in sorted(files, key=_name) if file.name.endswith(".md")}


def _name(file: Traversable) -> str:
    return file.name


@click.command()
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Print a page of the manual, or the list of pages.

    \b
    Example:
      walrelay docs
      walrelay docs dead-letters | less
    """
    if page is None:
        for name in pages():
            click.echo(name)
    elif page not in pages():
        raise click.BadParameter(f"there is no page {page!r}; the pages are {', '.join(pages())}", param_hint="PAGE")
    else:
        click.echo(pages()[page].read_text(), nl=False)
