"""The admin API as an ASGI app, and its OpenAPI document."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from walrelay import __version__
from walrelay.admin import activity, edits, letters, observing, overview, pausing, routing, rows, stream, table, working
from walrelay.admin.callers import Reader
from walrelay.admin.gate import AdminGate
from walrelay.admin.jobs import Jobs
from walrelay.admin.pages import show_console
from walrelay.admin.problems import MEDIA_TYPE, ProblemDocument, handle
from walrelay.admin.relays import AdminRelays
from walrelay.admin.watching import AdminWatch
from walrelay.config.admin import AdminSettings

PREFIX = "/api/v1"
ROUTERS = (
    overview.router,
    observing.router,
    activity.router,
    letters.router,
    edits.router,
    rows.router,
    pausing.router,
    table.router,
    routing.router,
    working.router,
    stream.router,
)

_ABOUT = """\
What `walrelay status`, `doctor`, `dlq` and others say and do, for programs. Errors are `application/problem+json`.
Scopes: `read`, `operate`, `admin`; each includes those before it. A request that changes something is JSON."""


def api(relays: AdminRelays | None = None, jobs: Jobs | None = None, watch: AdminWatch | None = None) -> FastAPI:
    """The routes, without the gate. Without `relays`, `jobs` and `watch` for the document alone."""
    app = FastAPI(
        title="walrelay admin API",
        version=__version__,
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation,
        responses={"default": {"model": ProblemDocument, "description": "Why the request failed"}},
    )
    app.state.relays, app.state.jobs, app.state.watch, app.state.streams = relays, jobs, watch, stream.Streams()
    for each in ROUTERS:
        app.include_router(each, prefix=PREFIX)

    @app.get(f"{PREFIX}/openapi.json", tags=["api"], summary="This document", operation_id="openapi")
    def openapi(_: Reader) -> dict[str, Any]:
        return openapi_document(app)

    show_console(app)
    handle(app)
    return app


def guarded(
    relays: AdminRelays, jobs: Jobs, watch: AdminWatch, settings: AdminSettings, bug: Callable[[Exception], None]
) -> AdminGate:
    """The whole app."""
    return AdminGate(api(relays, jobs, watch), settings, bug)


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """What the app answers, with its errors in their own media type."""
    document = app.openapi()
    for path in document["paths"].values():
        for operation in path.values():
            answers = operation["responses"]
            told = answers.get("default", {}).get("content", {})
            if "application/json" in told:
                told[MEDIA_TYPE] = told.pop("application/json")
    return document


def _operation(route: APIRoute) -> str:
    return f"{'_'.join(map(str, route.tags))}_{route.name}".replace(" ", "_")
