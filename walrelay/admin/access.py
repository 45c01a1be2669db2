"""Who asks, and what that caller may do: tokens, certificates, a proxy's header. Pure."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address, ip_network
from secrets import token_urlsafe
from typing import Literal, NamedTuple

from walrelay.config.admin import AccessScope, AdminCaller, AdminSettings

_ORDER: tuple[AccessScope, ...] = ("read", "operate", "admin")
_PREFIX = "walrelay_"  # by which scanners for secrets find a token that was committed


class Caller(NamedTuple):
    """Somebody whom the API knows. `way`: how. `relays`: those that exist for the caller; None: all."""

    name: str
    way: Literal["anonymous", "token", "certificate", "proxy"]
    scope: AccessScope
    relays: frozenset[str] | None = None

    def may(self, scope: AccessScope) -> bool:
        return _ORDER.index(self.scope) >= _ORDER.index(scope)

    def sees(self, relay: str) -> bool:
        return self.relays is None or relay in self.relays


class NewToken(NamedTuple):
    """A token, which is shown once, and what the settings have of it."""

    token: str
    sha256: str


def new_token() -> NewToken:
    """256 random bits: so a fast hash is enough, and a request costs no scrypt."""
    token = _PREFIX + token_urlsafe(32)
    return NewToken(token, _hashed(token))


def _hashed(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class Door:
    """Knows the callers of the settings."""

    def __init__(self, settings: AdminSettings) -> None:
        self._settings = settings
        self._certificates = {each.name: each for each in settings.certificates}
        self._behind_proxy = {each.name: each for each in settings.proxy.callers} if settings.proxy else {}
        self._networks = [ip_network(each) for each in settings.proxy.addresses] if settings.proxy else []

    def caller(self, headers: Mapping[str, Sequence[str]], address: str, certificate: str | None) -> Caller | None:
        """None: nobody that is known. `headers`: by their names in lower case. `certificate`: the common name of the
        client's, which was verified.
        """
        if shown := headers.get("authorization"):
            return self._by_token(shown)
        if (name := self._told_by_proxy(headers, address)) is not None:
            return _as(self._behind_proxy.get(name), "proxy")
        if certificate is not None and certificate in self._certificates:
            return _as(self._certificates[certificate], "certificate")
        if self._settings.knows_callers:
            return None
        return Caller("anonymous", "anonymous", self._settings.anonymous)

    def _by_token(self, shown: Sequence[str]) -> Caller | None:
        kind, _, token = shown[0].partition(" ")
        if len(shown) > 1 or kind.lower() != "bearer":
            return None
        hashed, found = _hashed(token.strip()), None
        for each in self._settings.tokens:  # all of them: how long it takes says nothing
            if compare_digest(each.sha256.get_secret_value(), hashed):
                found = each
        return _as(found, "token")

    def _told_by_proxy(self, headers: Mapping[str, Sequence[str]], address: str) -> str | None:
        proxy = self._settings.proxy
        if proxy is None or not self._is_proxy(address):
            return None
        told = headers.get(proxy.header.lower(), ())
        return told[0] if len(told) == 1 else None

    def _is_proxy(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self._networks)


def _as(known: AdminCaller | None, way: Literal["token", "certificate", "proxy"]) -> Caller | None:
    if known is None:
        return None
    return Caller(known.name, way, known.scope, None if known.relays is None else frozenset(known.relays))
