"""The console's files: a page that everybody may load who reaches the API, and that shows what its caller may see."""

from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

_FILES = Path(__file__).parent / "console"

PAGE_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-cache",  # asked for again each time, and sent again only where it has changed
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
        " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Instead of those of the API, or besides them. Scripts and styles are files of this server's; nothing else runs."""


def is_page(method: str, path: str) -> bool:
    """Whether it is a file of the console: these are in the package, say nothing of any relay, and need no caller."""
    return method in ("GET", "HEAD") and (path == "/" or path.startswith("/console/"))


def show_console(app: FastAPI) -> None:
    """Adds the page and its files."""

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return FileResponse(_FILES / "index.html")

    app.mount("/console", StaticFiles(directory=_FILES), name="console")
