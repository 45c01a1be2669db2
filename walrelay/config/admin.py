"""The settings of the admin API: where it listens, whom it answers, and how much."""

import ipaddress
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from walrelay.config.monitoring import ListenAddress, host_and_port
from walrelay.config.values import Seconds, Section, SectionError

_HASH = re.compile(r"[0-9a-f]{64}")
_CALLER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@ -]{0,99}")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")

AccessScope = Literal["read", "operate", "admin"]
"""Each includes those before it."""


def _hash(secret: SecretStr) -> SecretStr:
    if not _HASH.fullmatch(secret.get_secret_value()):
        raise ValueError("is no SHA-256 in hexadecimal: `walrelay admin token NAME` makes a token with its hash")
    return secret


def _caller_name(text: str) -> str:
    if not _CALLER.fullmatch(text):
        raise ValueError(f"{text!r} is no name: up to 100 letters, digits, spaces and any of _ . @ -")
    return text


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither an address nor a network: write 10.0.0.7 or 10.0.0.0/24") from None
    return text


def _header(text: str) -> str:
    if not _HEADER.fullmatch(text) or text.lower() in ("host", "origin", "authorization", "content-type"):
        raise ValueError(f"{text!r} cannot be the header of a proxy: write one of its own, as in X-Forwarded-User")
    return text


CallerName = Annotated[str, AfterValidator(_caller_name)]
Network = Annotated[str, AfterValidator(_network)]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AdminCaller(Section):
    """Somebody whom the API knows, and what he may do there."""

    name: CallerName
    """Who it is: the log of all changes names him so."""

    scope: AccessScope = "read"
    """read: look, but see no event's content. operate: also that content, and what can be repeated, such as a replay.
    admin: also what cannot be taken back, the log of all changes, and the settings."""

    relays: tuple[str, ...] | None = None
    """The relays that exist for this caller, by name. null: all of them."""


class AdminToken(AdminCaller):
    """A caller who shows a token: `Authorization: Bearer ...`. `walrelay admin token NAME` makes one."""

    sha256: Annotated[SecretStr, AfterValidator(_hash)]
    """The token's hash: the token itself is written nowhere."""


class AdminTls(Section):
    """HTTPS, and certificates of clients."""

    certificate: str
    """The file with the server's certificate and those between it and its root, PEM."""

    key: str
    """The file with its private key, PEM."""

    client_ca: str | None = None
    """The file with the roots of clients' certificates, PEM. With it a client without a certificate gets no connection;
    `admin.certificates` says who it is."""


class AdminProxy(Section):
    """A proxy that knows who asks, and says so in a header. It must remove that header from what it receives itself."""

    addresses: Annotated[tuple[Network, ...], Field(min_length=1)]
    """Where it comes from: addresses or networks. Everybody who can connect from there can be anybody."""

    header: Annotated[str, AfterValidator(_header)] = "X-Forwarded-User"
    """The header with the caller's name."""

    callers: tuple[AdminCaller, ...]
    """Whom the API answers, by the names in that header."""


class AdminSettings(Section):
    """The admin API, which `walrelay admin` serves in a process of its own; `walrelay docs admin` explains it."""

    listen: ListenAddress = "127.0.0.1:8642"
    """Host and port. Other addresses than loopback need tokens, certificates or a proxy."""

    hosts: tuple[str, ...] = ()
    """Further names by which the API is reached, as in `walrelay.internal`: a request for another host is refused."""

    anonymous: AccessScope = "read"
    """What anybody on this machine may do while there are neither tokens nor certificates nor a proxy."""

    tokens: tuple[AdminToken, ...] = ()
    """Callers who show a token."""

    tls: AdminTls | None = None
    """HTTPS. null: HTTP, for loopback and for a network that encrypts itself."""

    certificates: tuple[AdminCaller, ...] = ()
    """Callers who show a certificate that `admin.tls.client_ca` signed, by its common name."""

    proxy: AdminProxy | None = None
    """A proxy that says who asks. null: there is none."""

    requests_per_second: Annotated[float, Field(ge=1, le=10_000, allow_inf_nan=False)] = 100
    """How many requests a second the API answers to one caller, for longer than a moment."""

    max_body: Annotated[int, Field(ge=1024, le=100_000_000, json_schema_extra={"unit": "bytes"})] = 1_000_000
    """The largest body of a request."""

    connections: Annotated[int, Field(ge=1, le=100)] = 4
    """How many connections the API has to a database at most."""

    statement_timeout: Seconds = 5
    """How long a question of the API may keep PostgreSQL busy."""

    sample_interval: Annotated[
        float, Field(ge=0, le=3600, allow_inf_nan=False, json_schema_extra={"unit": "seconds"})
    ] = 15
    """How often all databases are looked at, for the charts of the last hours. 0: only while somebody looks at the
    console."""

    @property
    def address(self) -> tuple[str, int]:
        return host_and_port(self.listen)

    @property
    def knows_callers(self) -> bool:
        return bool(self.tokens or self.certificates or self.proxy)

    @model_validator(mode="after")
    def _is_guarded(self) -> Self:
        if not self.knows_callers and not _is_loopback(self.address[0]):
            raise SectionError(
                ("listen",),
                f"{self.listen!r} is reached from other machines, so `tokens` (`walrelay admin token NAME` makes one),"
                " `certificates` or `proxy` must say who may ask; or listen on 127.0.0.1:8642",
            )
        if self.certificates and (self.tls is None or self.tls.client_ca is None):
            raise SectionError(("certificates",), "clients show no certificate without `tls.client_ca`")
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for section, callers in (("tokens", self.tokens), ("certificates", self.certificates)):
            names = [each.name for each in callers]
            for number, name in enumerate(names):
                if name in names[:number]:
                    raise SectionError((section, number, "name"), f"{name!r} is there twice")
        hashes = [each.sha256.get_secret_value() for each in self.tokens]
        if len({*hashes}) < len(hashes):
            raise SectionError(("tokens",), "two have the same hash: make a token for each")
        return self
