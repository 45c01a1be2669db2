"""The route that tells what changes as it changes: server-sent events, one stream for each page that is open."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from walrelay.admin.access import Caller
from walrelay.admin.activity import shown_activity, shown_events
from walrelay.admin.callers import Reader, Relays, visible_relay
from walrelay.admin.changes import Stored
from walrelay.admin.journal import AdminJournal
from walrelay.admin.overview import Watching, shown_overview
from walrelay.admin.problems import ApiProblem
from walrelay.admin.relays import AdminRelay
from walrelay.admin.watching import AdminWatch
from walrelay.admin.working import JobPage, shown_job
from walrelay.control.asking import recent_events
from walrelay.errors import WalrelayError

router = APIRouter(tags=["overview"])

_MOST = 40  # streams of this process
_THREADS = 8  # in which they ask
_PAUSE = 0.5  # seconds between two tellings
_HEARTBEAT = 15.0  # seconds; proxies end what is silent for a minute
_JOBS, _EVENTS = 20, 200
_ANSWER, _UNANSWERED = 1.0, 10.0  # seconds for a leader to answer, and until it is asked again if it did not
_LONGEST = 86_400.0  # seconds


class Streams:
    """How many there are. For the thread of the event loop."""

    def __init__(self) -> None:
        self._open = 0
        self.threads = CapacityLimiter(_THREADS)
        """Of their own: while a database does not answer, routes still have theirs."""

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
    responses={200: {"content": {"text/event-stream": {}}, "description": "Until it ends."}},
)
async def stream(
    request: Request,
    caller: Reader,
    relays: Relays,
    watch: Watching,
    relay: Annotated[Stored, Query(max_length=63, description="Also tell what happens to this one.")] = "",
    seconds: Annotated[
        float, Query(ge=0, le=_LONGEST, description="For how long; 0: tell everything once.")
    ] = _LONGEST,
) -> StreamingResponse:
    """Server-sent events: `overview`, as GET overview has it, and with a relay its `activity`, `jobs`, and `events`
    that are new or got their receipt; each when it changes, and at most every half second. A comment every 15 seconds
    says that the stream lives.
    """
    streams: Streams = request.app.state.streams
    streams.refuse_more()
    one = await to_thread.run_sync(visible_relay, relay, caller, relays) if relay else None
    return StreamingResponse(_events(watch, caller, one, streams, seconds), media_type="text/event-stream")


async def _events(
    watch: AdminWatch, caller: Caller, relay: AdminRelay | None, streams: Streams, seconds: float
) -> AsyncIterator[str]:
    tellers: list[Teller] = [_Overview(watch, caller)]
    if relay is not None:
        tellers += [_Leader(relay, caller), _Jobs(relay, caller)]
    told: dict[str, str] = {}
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    until = loop.time() + seconds

    def tell() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(changed.set)

    with streams.one_more(), watch.watching(tell):
        yield "retry: 2000\n\n"
        while not watch.closed:
            changed.clear()
            for teller in tellers:
                for name, text in await to_thread.run_sync(teller, limiter=streams.threads):
                    if text != told.get(name):
                        told[name] = text
                        yield f"event: {name}\ndata: {text}\n\n"
            if loop.time() >= until:
                return
            await asyncio.sleep(_PAUSE)
            try:
                await asyncio.wait_for(changed.wait(), min(_HEARTBEAT, max(0.0, until - loop.time())))
            except TimeoutError:
                yield ": nothing changed\n\n"


Teller = Callable[[], Sequence[tuple[str, str]]]
"""Events by name and data; none where nothing can be told just now: whoever asks the route for it hears why."""


class _Overview:
    def __init__(self, watch: AdminWatch, caller: Caller) -> None:
        self._look, self._watch, self._caller = watch.overview, watch, caller

    def __call__(self) -> list[tuple[str, str]]:
        found, self._look = self._look(), self._watch.latest  # only the first one waits for a look
        return [("overview", shown_overview(found, self._caller).model_dump_json())]


class _Jobs:
    def __init__(self, relay: AdminRelay, caller: Caller) -> None:
        self._relay, self._operates = relay, caller.may("operate")
        self._not_before = 0.0

    def __call__(self) -> list[tuple[str, str]]:
        if monotonic() < self._not_before:
            return []
        try:
            with self._relay.catalog() as catalog:
                found = AdminJournal(catalog, self._relay.wiring.slot).jobs(_JOBS)
        except WalrelayError:
            self._not_before = monotonic() + _UNANSWERED
            return []
        page = JobPage(jobs=[shown_job(each, operates=self._operates) for each in found], next=None)
        return [("jobs", page.model_dump_json())]


class _Leader:
    """What the process that leads knows: live numbers, and events that are new, or had no receipt when they were."""

    def __init__(self, relay: AdminRelay, caller: Caller) -> None:
        self._relay, self._operates = relay, caller.may("operate")
        self._process = ("", 0.0)
        self._after, self._not_before = 0, 0.0

    def __call__(self) -> list[tuple[str, str]]:
        if monotonic() < self._not_before:
            return []
        try:
            with self._relay.catalog() as catalog:
                found = recent_events(catalog, self._relay.wiring.slot, self._after, patience=_ANSWER)
        except WalrelayError:
            self._not_before = monotonic() + _UNANSWERED
            return []
        activity, events = found
        if (activity.instance, activity.since) != self._process:
            again = self._process[0] and self._after
            self._process, self._after = (activity.instance, activity.since), 0
            if again:  # another process counts from 1
                return self()
        open_ = [each.number for each in events if each.acknowledged_at is None]
        self._after = max(self._after, min(open_, default=activity.last_event + 1) - 1)
        shown = shown_events(activity, events[:_EVENTS], operates=self._operates)
        return [
            ("activity", shown_activity(activity, operates=self._operates).model_dump_json()),
            *([("events", shown.model_dump_json())] if events else []),
        ]
