"""`walrelay docs`: the manual, which comes with the package."""

import re
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


def section(text: str, anchor: str) -> str | None:
    """A heading with what is below it, by the name that GitHub gives it in links; None if there is none."""
    headings = [*re.finditer(r"^(#+) (.*)$", text, re.M)]
    for number, heading in enumerate(headings):
        if re.sub(r"[^\w -]", "", heading[2].lower()).replace(" ", "-") == anchor:
            ends = (each.start() for each in headings[number + 1 :] if len(each[1]) <= len(heading[1]))
            return text[heading.start() : next(ends, len(text))].rstrip() + "\n"
    return None


@click.command()
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Print a page of the manual, a section, or the list of pages.

    \b
    Example:
      walrelay docs
      walrelay docs dead-letters | less
      walrelay docs runbook#lag
    """
    if page is None:
        for name in pages():
            click.echo(name)
        return
    name, _, anchor = page.partition("#")
    if name not in pages():
        raise click.BadParameter(f"there is no page {name!r}; the pages are {', '.join(pages())}", param_hint="PAGE")
    text = pages()[name].read_text()
    found = section(text, anchor) if anchor else text
    if found is None:
        raise click.BadParameter(f"page {name!r} has no section {anchor!r}", param_hint="PAGE")
    click.echo(found, nl=False)
