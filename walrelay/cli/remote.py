"""The admin API as commands ask it, with `--api`: for whoever has a token and no way to the database."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from threading import Event
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

import click

from walrelay.control.asking import Percentiles, Rates
from walrelay.errors import Fatal
from walrelay.operations.overview import Judgement, RelayGlance, SeenRelay

TOKEN = "WALRELAY_TOKEN"

_PATIENCE = 60.0  # seconds for an answer
_LOOK = 0.5  # seconds between two looks at a job
_LARGEST = 100_000_000  # bytes of an answer

api_option = click.option(
    "--api",
    metavar="URL",
    envvar="WALRELAY_API",
    default="",
    show_envvar=True,
    help=f"Ask the admin API there, with the token in {TOKEN}, instead of the database.",
)
"""The command gets it as `api: str`; empty: it is not to be asked."""


class _NoRedirect(HTTPRedirectHandler):
    """The token is for the address that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


class RemoteRelay(NamedTuple):
    """A relay, and its path below the API's."""

    name: str
    path: str


class RemoteApi:
    """The API at `url`. Its errors are Fatal, in its words and with its hints."""

    def __init__(self, url: str, env: Mapping[str, str] = os.environ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise click.BadParameter(f"{url!r} is no address: write http://127.0.0.1:8642", param_hint="--api")
        self._url, self._token = url.rstrip("/"), env.get(TOKEN, "")
        self._opener: OpenerDirector = build_opener(_NoRedirect)

    def get(self, path: str, **parameters: Any) -> Any:
        given = {name: value for name, value in parameters.items() if value not in (None, "", [])}
        return self._asked("GET", f"{path}?{urlencode(given, doseq=True)}" if given else path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._asked("POST", path, json.dumps(body).encode())

    def relay(self, name: str) -> RemoteRelay:
        """That relay; the only one there is, if none is named. A usage error where that says nothing."""
        if not name:
            names = [each["name"] for each in self.get("/overview")["relays"] if each["in_settings"]]
            if len(names) != 1:
                raise click.UsageError(f"Which relay? Name one: {', '.join(names) or 'the API shows none'}.")
            (name,) = names
        return RemoteRelay(name, f"/relays/{quote(name, safe='')}")

    def job(self, relay: RemoteRelay, started: Mapping[str, Any], stop: Event) -> Iterator[dict[str, Any]]:
        """How far a job is that was begun, until it has ended. At a stop it goes on by itself."""
        while started["job"] is not None:
            found: dict[str, Any] = self.get(f"{relay.path}/jobs/{started['job']}")
            yield found
            if found["state"] != "running":
                if found["state"] == "failed":
                    raise Fatal(found["error"], hint=found["hint"])
                return
            if stop.wait(_LOOK):
                return

    def _asked(self, method: str, path: str, body: bytes | None) -> Any:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            request = Request(f"{self._url}/api/v1{path}", body, headers, method=method)
            with self._opener.open(request, timeout=_PATIENCE) as answer:
                return json.loads(answer.read(_LARGEST))
        except HTTPError as refused:
            raise self._refusal(refused) from None
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "reason", None) or error
            hint = "`walrelay admin` serves it; without --api the database is asked."
            raise Fatal(f"the admin API at {self._url} gives no answer: {why}", hint=hint) from None

    def _refusal(self, refused: HTTPError) -> Fatal:
        told: Any = None
        with refused, suppress(OSError, HTTPException, ValueError, RecursionError):
            told = json.loads(refused.read(1_000_000))
        problem: dict[str, Any] = told if isinstance(told, dict) else {}  # a proxy answers in a form of its own
        detail = problem.get("detail") or f"status {refused.code}"
        errors = [each for each in problem.get("errors") or () if isinstance(each, dict)]
        more = "".join(f"; {each.get('where')}: {each.get('detail')}" for each in errors)
        hint = str(problem.get("hint") or "")
        if refused.code == 401:
            hint = f"Set {TOKEN}; `walrelay admin token NAME` makes a token for the settings of the API."
        return Fatal(f"the admin API at {self._url}: {detail}{more}", hint=hint)


_PAUSE = {
    "pause_reason": "reason",
    "paused_by": "by",
    "paused_at": "at",
    "paused_until": "until",
    "pause_limit": "limit_bytes",
    "at_pause_limit": "at_limit",
}
"""The members of a relay's glance, by what they are called in the pause of an overview."""


def remote_relays(api: RemoteApi, names: Sequence[str] = ()) -> list[SeenRelay]:
    """Those of the overview, of these names if any are given, in the order of their names."""
    found = [_seen(each) for each in api.get("/overview")["relays"] if not names or each["name"] in names]
    return sorted(found, key=lambda each: (each.seen.name, each.seen.slot))


def _seen(told: Mapping[str, Any]) -> SeenRelay:
    pause = told["paused"] or {}
    known = {name: told[name] for name in RelayGlance._fields if name in told}
    known |= {"paused": told["paused"] is not None} | {name: pause.get(of) for name, of in _PAUSE.items()}
    rates, p50, p99 = told["published_per_second"], told["latency_p50"], told["latency_p99"]
    return SeenRelay(
        RelayGlance(**known),
        Judgement(told["level"], told["why"], told["todo"]),
        rates=None if rates is None else Rates(rates, told["bytes_per_second"]),
        safe_seconds=told["safe_seconds"],
        in_flight=told["in_flight"],
        latency=None if p99 is None else Percentiles(p50, p99),
    )
