"""What routes ask for: the caller, who has the scope they need, and a relay that this caller sees."""

from typing import Annotated

from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPBearer, SecurityScopes

from walrelay.admin.access import Caller
from walrelay.admin.changes import Stored
from walrelay.admin.problems import ApiProblem
from walrelay.admin.relays import AdminRelay, AdminRelays
from walrelay.config.admin import AccessScope

_bearer = HTTPBearer(
    auto_error=False,
    description="A token of `admin.tokens`. A certificate or a proxy may say who asks instead, and on loopback anybody"
    " may look while the settings name no caller.",
)


def _caller(request: Request, needed: SecurityScopes, _: Annotated[object, Depends(_bearer)]) -> Caller:
    """The gate has let the caller in; here is what the route needs."""
    caller: Caller = request.state.caller
    for scope in needed.scopes:
        if not caller.may(_scope(scope)):
            hint = f"It takes the scope {scope!r} in the settings of the caller (section `admin`)."
            raise ApiProblem(403, f"{caller.name} has the scope {caller.scope!r}, which is not enough for this", hint)
    return caller


def _scope(text: str) -> AccessScope:
    assert text in ("read", "operate", "admin")
    return text  # type: ignore[return-value]


Reader = Annotated[Caller, Security(_caller, scopes=["read"])]
Operator = Annotated[Caller, Security(_caller, scopes=["operate"])]
Administrator = Annotated[Caller, Security(_caller, scopes=["admin"])]


def _relays(request: Request) -> AdminRelays:
    relays: AdminRelays = request.app.state.relays
    relays.sweep()
    return relays


Relays = Annotated[AdminRelays, Depends(_relays)]


def visible_relay(name: str, caller: Caller, relays: AdminRelays) -> AdminRelay:
    """One that the caller may not see does not exist."""
    found = relays.found().relays.get(name)
    if found is None or not caller.sees(name):
        raise ApiProblem(404, f"there is no relay {name!r}", "GET /api/v1/relays lists them.")
    return found


def _relay(relay: Annotated[Stored, Path(max_length=63)], caller: Reader, relays: Relays) -> AdminRelay:
    return visible_relay(relay, caller, relays)


Relay = Annotated[AdminRelay, Depends(_relay)]
