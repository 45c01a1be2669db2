"""The endpoints for machines that watch: metrics, and health in three questions."""

import json
from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple

from walrelay.telemetry.health import RelayHealth, health
from walrelay.telemetry.instruments import RelayView
from walrelay.telemetry.views import Views

_SOON = 0.5  # seconds for a server to be asked: the probes of Kubernetes wait for one


class HttpAnswer(NamedTuple):
    status: int
    body: bytes
    content_type: str


class Endpoints:
    """What each path answers."""

    def __init__(self, views: Views, stall_after: float, metrics: Callable[[str], tuple[bytes, str]]) -> None:
        """`metrics` makes the text of a scrape for an Accept header: (body, content type)."""
        self._views, self._stall_after, self._metrics = views, stall_after, metrics

    def get(self, path: str, accept: str) -> HttpAnswer:
        match path.partition("?")[0]:
            case "/metrics":
                return HttpAnswer(200, *self._metrics(accept))
            case "/healthz":
                return self._health(self._views.without_asking(), lambda relay: relay.alive)
            case "/readyz":
                return self._health(self._views(_SOON), lambda relay: relay.ready, without=False)
            case "/startupz":
                return self._health(self._views.without_asking(), lambda relay: relay.started, without=False)
        return HttpAnswer(404, b"walrelay: /metrics, /healthz, /readyz, /startupz\n", "text/plain; charset=utf-8")

    def _health(
        self, views: Sequence[RelayView], well: Callable[[RelayHealth], bool], *, without: bool = True
    ) -> HttpAnswer:
        """`without`: whether a process that has no relay (yet) is well."""
        now = monotonic()
        relays = [health(view, now, self._stall_after) for view in views]
        ok = all(well(each) for each in relays) if relays else without
        body = json.dumps({"ok": ok, "relays": [each.as_json() for each in relays]}, indent=2) + "\n"
        return HttpAnswer(200 if ok else 503, body.encode(), "application/json")
