"""The settings of the webhook sink."""

import re
from ipaddress import ip_address
from typing import NamedTuple, Self
from urllib.parse import quote, unquote

from pydantic import Field, SecretStr, field_validator, model_validator

from walrelay.sinks.address import AddressTemplate, NoAddress, url_parts
from walrelay.sinks.hosting.settings import HostedSettings, TlsSettings
from walrelay.sinks.webhook.names import NAME, VALUE, is_reserved
from walrelay.sinks.webhook.networks import is_private_host
from walrelay.sinks.webhook.signature import secret

_PRINTABLE = re.compile(r"[!-~]+")
_NUMBERS = re.compile(r"[0-9.]+")
_DOTS = {".", ".."}


class EndpointUrl(NamedTuple):
    """The setting `url` in parts. `origin`: `https://host:port`, which messages show: a path or query may be secret."""

    origin: str
    host: str
    port: int
    tls: bool
    path: AddressTemplate
    query: str  # with its question mark


class WebhookSettings(HostedSettings, TlsSettings):
    """`kind: webhook`: a POST for each message, durable when the endpoint answers 2xx; in order per key."""

    url: SecretStr = Field(
        description="The endpoint, https://host/path. The path may be a template of `{topic}`, `{key}` and"
        " `{header.NAME}`, which are percent-encoded; host and query are not.",
    )
    signing_secrets: tuple[SecretStr, ...] = Field(
        (),
        description="Secrets of Standard Webhooks, `whsec_...`. Each request has a signature by each of them, so that"
        " receivers can change to a new one. Empty: requests are not signed.",
    )
    bearer_token: SecretStr | None = Field(None, description="A token for the header `authorization: Bearer ...`.")
    headers: dict[str, SecretStr] = Field(
        {}, description="Further headers of each request, such as an API key. A row has none of these names."
    )
    key_header: str | None = Field(
        "key", max_length=255, description="The header that has the message's key; null: none has it."
    )
    content_type: str = Field(
        "application/json",
        min_length=1,
        description="The content type of messages that have no header `content-type`.",
    )
    max_connections: int = Field(64, ge=1, le=1_000, description="Requests that may be on their way at once.")
    allow_private_addresses: bool = Field(
        False,
        description="Whether the endpoint may be on this machine or in a private network. Otherwise a name that leads"
        " there is not followed.",
    )
    request_timeout: float = Field(
        20,
        gt=0,
        allow_inf_nan=False,
        description="A request that takes so long has failed, and is sent again after a pause.",
        json_schema_extra={"unit": "seconds"},
    )

    @field_validator("url")
    @classmethod
    def _is_an_endpoint(cls, url: SecretStr) -> SecretStr:
        endpoint_url(url)
        return url

    @field_validator("signing_secrets")
    @classmethod
    def _are_secrets(cls, secrets: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for each in secrets:
            secret(each.get_secret_value())
        return secrets

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a header: letters, digits and hyphens")
            if name.lower() != "authorization" and is_reserved(name.lower()):
                raise ValueError(f"the header {name!r} is HTTP's own or walrelay's")
            if not VALUE.fullmatch(value.get_secret_value()):
                raise ValueError(f"the header {name!r} has blanks around it or characters that end a line")
        if len({name.lower() for name in headers}) < len(headers):
            raise ValueError("a header is there twice")
        return headers

    @field_validator("bearer_token", "content_type")
    @classmethod
    def _fits_a_header(cls, text: SecretStr | str | None) -> SecretStr | str | None:
        value = text.get_secret_value() if isinstance(text, SecretStr) else text
        if value is not None and not (value.isascii() and VALUE.fullmatch(value)):
            raise ValueError("a header can have ASCII characters only, in one line and without blanks around them")
        return text

    @field_validator("key_header")
    @classmethod
    def _is_a_header(cls, name: str | None) -> str | None:
        if name is not None and (not NAME.fullmatch(name) or is_reserved(name.lower())):
            raise ValueError(f"{name!r} is no name for a header, or HTTP's own: letters, digits and hyphens")
        return name

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if self.bearer_token is not None and "authorization" in {name.lower() for name in self.headers}:
            raise ValueError("bearer_token and headers both have an authorization: leave one of them out")
        host = endpoint_url(self.url).host
        if not self.allow_private_addresses and is_private_host(host):
            raise ValueError(f"url leads to {host}, a private address: set allow_private_addresses if it is meant")
        return self

    @property
    def endpoint(self) -> EndpointUrl:
        return endpoint_url(self.url)


def _international(host: str) -> str:
    """How a host with other letters than ASCII's is written; percent-encoded it would be another, which no resolver
    knows.
    """
    if host.isascii():
        return ""
    try:
        return f"the host {host} is written {host.encode('idna').decode()}"
    except UnicodeError:
        return f"the host {host} has characters that no host can have"


def endpoint_url(url: SecretStr) -> EndpointUrl:
    """ValueError, which does not show the URL, for what is no endpoint."""
    text = url.get_secret_value()
    parts = url_parts(text, with_password=False)
    host, port = parts.hostname or "", parts.port
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("a URL begins with https://host or http://host")
    if fault := _international(unquote(host)):
        raise ValueError(fault)
    if not _PRINTABLE.fullmatch(text):
        raise ValueError("a URL has no blanks and ASCII characters only: percent-encode others")
    if _NUMBERS.fullmatch(host) and not _is_address(host):
        raise ValueError(f"{host} is not how an address is written")
    if "@" in parts.netloc:
        raise ValueError("credentials belong into bearer_token or headers, not into the URL")
    if "{" in parts.netloc + parts.query or "}" in parts.netloc + parts.query:
        raise ValueError("only the path may be a template, not the host or the query")
    if parts.fragment or text.endswith("#"):
        raise ValueError("a fragment (#...) is never sent")
    if _DOTS & {*parts.path.split("/")}:
        raise ValueError("its path has a . or .. in it")
    tls = parts.scheme == "https"
    return EndpointUrl(
        f"{parts.scheme}://{parts.netloc}",
        host,
        port or (443 if tls else 80),
        tls,
        AddressTemplate(parts.path or "/", _encoded),
        f"?{parts.query}" if parts.query else "",
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _encoded(text: str) -> str:
    if not text:
        raise NoAddress("a part of its path would be empty")
    return quote(text, safe="", errors="surrogateescape")
