"""What every request passes before a route sees it, in this order: for this host, not too often, by somebody known, of
no browser's form, with a body that is whole and small enough.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from walrelay.admin.access import Caller, Door
from walrelay.admin.pages import PAGE_HEADERS, is_page
from walrelay.admin.problems import ApiProblem, of_error, response
from walrelay.admin.rates import Rate
from walrelay.config.admin import AdminSettings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
CERTIFICATE = "walrelay.certificate"
"""In the scope: the common name of the client's certificate, if it showed one."""

_SAFE = ("GET", "HEAD", "OPTIONS")
_HERE = ("localhost", "127.0.0.1", "[::1]")
_ANY = ("0.0.0.0", "::")
_HEADERS = 32_768  # bytes
_SLOW = 10.0  # seconds for a body to come
_FAILURES = 10  # of one address, at once; then one every six seconds


class AdminGate:
    """The outermost part of the app."""

    def __init__(self, app: App, settings: AdminSettings, bug: Callable[[Exception], None]) -> None:
        """`bug` hears of errors that nobody foresaw."""
        self._app, self._settings, self._door, self._bug = app, settings, Door(settings), bug
        self._requests = Rate(settings.requests_per_second, max(20.0, 2 * settings.requests_per_second))
        self._failures = Rate(_FAILURES / 60, _FAILURES)
        self._hosts = self._known_hosts()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        begun, page = False, is_page(scope["method"], scope["path"])
        headers = {**SECURITY_HEADERS, **(PAGE_HEADERS if page else {})}

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                names = {name.lower() for name, _ in message["headers"]}
                more = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
                message["headers"] = [*message["headers"], *(each for each in more if each[0] not in names)]
            await send(message)

        try:
            caller = None
            if page:
                self._admit_visitor(scope)
            else:
                caller = self._admitted(scope)
            body = await self._body(scope, receive)
        except ApiProblem as refused:
            answer = response(refused.status, refused.detail, scope["path"], refused.hint, headers=refused.headers)
            await answer(scope, receive, guarded)
            return
        scope.setdefault("state", {})["caller"] = caller
        try:
            await self._app(scope, _replayed(body, receive), guarded)
        except Exception as error:
            self._bug(error)
            if not begun:
                await of_error(error, scope["path"])(scope, receive, guarded)

    def _admit_visitor(self, scope: MutableMapping[str, Any]) -> None:
        """Whoever loads the page of the console, which asks for a token where it needs one."""
        self._refuse_host(_headers(scope).get("host", []))
        _refuse_often(self._requests.take(("page", _address(scope))), "this address loads the console too often")

    def _admitted(self, scope: MutableMapping[str, Any]) -> Caller:
        headers, address = _headers(scope), _address(scope)
        self._refuse_host(headers.get("host", []))
        _refuse_often(self._failures.wait(address), "too many requests of this address were refused")
        caller = self._door.caller(headers, address, scope.get(CERTIFICATE))
        if caller is None:
            self._failures.take(address)
            raise ApiProblem(
                401,
                "nobody is known by what this request shows",
                "Send `Authorization: Bearer TOKEN`; `walrelay admin token NAME` makes a token for the settings.",
                {"WWW-Authenticate": "Bearer"},
            )
        who = (caller.way, caller.name, address if caller.way == "anonymous" else "")
        _refuse_often(self._requests.take(who), "this caller asks more often than admin.requests_per_second")
        if scope["method"] not in _SAFE:
            _refuse_browsers(headers)
        return caller

    def _known_hosts(self) -> frozenset[str] | None:
        """None: any, because only who is known is answered anyway, and the address says nothing."""
        host, _ = self._settings.address
        if host in _ANY and not self._settings.hosts:
            return None
        return frozenset(each.lower() for each in (*_HERE, _in_url(host), *self._settings.hosts))

    def _refuse_host(self, told: Sequence[str]) -> None:
        """A page of somebody else's may give its own name the address of this machine (DNS rebinding)."""
        if self._hosts is None:
            return
        host = told[0].lower() if len(told) == 1 else ""
        name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        if name not in self._hosts:
            raise ApiProblem(421, "this is no host of the admin API", "Name it in admin.hosts if it is one.")

    async def _body(self, scope: MutableMapping[str, Any], receive: Receive) -> bytes:
        most = self._settings.max_body
        declared = next((value for name, value in scope["headers"] if name.lower() == b"content-length"), b"0")
        too_large = ApiProblem(413, f"the body is larger than {most} bytes (admin.max_body)")
        if declared.isdigit() and int(declared) > most:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(_SLOW):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise ApiProblem(400, "the client left before its request was whole")
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_large
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise ApiProblem(408, f"the request was not whole within {_SLOW:g} s") from None


def _headers(scope: MutableMapping[str, Any]) -> dict[str, list[str]]:
    """By their names in lower case."""
    if sum(len(name) + len(value) for name, value in scope["headers"]) > _HEADERS:
        raise ApiProblem(431, f"the headers are larger than {_HEADERS} bytes")
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def _address(scope: MutableMapping[str, Any]) -> str:
    return str((scope.get("client") or ("", 0))[0])


def _refuse_often(seconds: float, why: str) -> None:
    if seconds:
        raise ApiProblem(429, why, f"Ask again in {seconds:.1f} s.", {"Retry-After": str(max(1, round(seconds)))})


def _refuse_browsers(headers: dict[str, list[str]]) -> None:
    """A form, or a script of another page, cannot send this content type without asking first, and is not answered."""
    kind = headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiProblem(415, "a request that changes something is JSON", "Send `Content-Type: application/json`.")
    foreign = ApiProblem(403, "a page of another origin asks for this")
    if headers.get("sec-fetch-site", ["none"])[0] not in ("none", "same-origin"):
        raise foreign
    origin = headers.get("origin", [""])[0]
    if origin and origin.partition("://")[2] != headers["host"][0]:
        raise foreign


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _replayed(body: bytes, receive: Receive) -> Receive:
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return whole.pop() if whole else await receive()

    return next_message
