"""`walrelay docs`: the manual, which comes with the package."""

import click

from walrelay.ddl import shipped


def pages() -> list[str]:
    """The names of the manual's pages."""
    return sorted(file.name.removesuffix(".md") for file in shipped("docs").iterdir() if file.name.endswith(".md"))


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
        click.echo(shipped("docs").joinpath(f"{page}.md").read_text(), nl=False)
