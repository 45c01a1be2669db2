"""The route that tells what changes as it changes: server-sent events, one stream for each page that is open."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from walrelay.admin.access import Caller
from walrelay.admin.callers import Reader, Relays, visible_relay
from walrelay.admin.journal import AdminJournal
from walrelay.admin.overview import Watching, shown_overview
from walrelay.admin.problems import ApiProblem
from walrelay.admin.relays import AdminRelay
from walrelay.admin.watching import Watch
from walrelay.admin.working import JobPage, shown_job
from walrelay.errors import WalrelayError

router = APIRouter(tags=["overview"])

_MOST = 40  # streams of this process
_PAUSE = 0.5  # seconds between two tellings
_HEARTBEAT = 15.0  # seconds; proxies end what is silent for a minute
_JOBS = 20
_LONGEST = 86_400.0  # seconds


class Streams:
    """How many there are. For the thread of the event loop."""

    def __init__(self) -> None:
        self._open = 0

    def refuse_more(self) -> None:
        if self._open >= _MOST:
            hint = "GET /api/v1/overview says the same once."
            raise ApiProblem(429, f"{_MOST} pages watch already", hint, {"Retry-After": "30"})

    @contextmanager
    def one_more(self) -> Iterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


@router.get(
    "/stream",
    summary="Be told what changes",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Until it ends."}
    },
)
async def stream(
    request: Request,
    caller: Reader,
    relays: Relays,
    watch: Watching,
    relay: Annotated[str, Query(max_length=63, description="Also tell what happens to this one.")] = "",
    seconds: Annotated[
        float, Query(ge=0, le=_LONGEST, description="For how long; 0: tell everything once.")
    ] = _LONGEST,
) -> StreamingResponse:
    """Server-sent events: `overview`, as GET overview has it, and with a relay its `jobs`; each when it changes, and at
    most every half second. A comment every 15 seconds says that the stream lives.
    """
    streams: Streams = request.app.state.streams
    streams.refuse_more()
    one = await to_thread.run_sync(visible_relay, relay, caller, relays) if relay else None
    return StreamingResponse(_events(watch, caller, one, streams, seconds), media_type="text/event-stream")


async def _events(
    watch: Watch, caller: Caller, relay: AdminRelay | None, streams: Streams, seconds: float
) -> AsyncIterator[str]:
    told: dict[str, str] = {}

    def overview() -> BaseModel:
        return shown_overview(watch.latest() if told else watch.overview(), caller)

    parts: dict[str, Callable[[], BaseModel]] = {"overview": overview}
    if relay is not None:
        parts["jobs"] = lambda: _jobs(relay, caller)
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    until = loop.time() + seconds

    def tell() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(changed.set)

    with streams.one_more(), watch.watching(tell):
        yield "retry: 2000\n\n"
        while not watch.closed:
            changed.clear()
            for name, part in parts.items():
                text = await to_thread.run_sync(_text, part)
                if text is not None and text != told.get(name):
                    told[name] = text
                    yield f"event: {name}\ndata: {text}\n\n"
            if loop.time() >= until:
                return
            await asyncio.sleep(_PAUSE)
            try:
                await asyncio.wait_for(changed.wait(), min(_HEARTBEAT, max(0.0, until - loop.time())))
            except TimeoutError:
                yield ": nothing changed\n\n"


def _text(part: Callable[[], BaseModel]) -> str | None:
    """None: it cannot be told just now; whoever asks the route for it hears why."""
    try:
        return part().model_dump_json()
    except WalrelayError:
        return None


def _jobs(relay: AdminRelay, caller: Caller) -> JobPage:
    with relay.catalog() as catalog:
        found = AdminJournal(catalog, relay.wiring.slot).jobs(_JOBS)
    return JobPage(jobs=[shown_job(each, operates=caller.may("operate")) for each in found], next=None)
