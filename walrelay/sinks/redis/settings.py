"""The settings of the Redis sink."""

from typing import NamedTuple, Self
from urllib.parse import unquote

from pydantic import Field, SecretStr, field_validator, model_validator

from walrelay.sinks.address import is_address_template, url_parts
from walrelay.sinks.hosting.settings import HostedSettings, TlsSettings

_PORT, _SENTINELS_PORT = 6379, 26379


class Address(NamedTuple):
    """Of a server. `host` is a master's name where Sentinel says which server that is."""

    host: str
    port: int
    username: str | None
    password: str | None
    database: int
    tls: bool

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class RedisSettings(HostedSettings, TlsSettings):
    """`kind: redis`: entries of Redis streams, in commit order; exactly once with `delivery: exactly_once`."""

    url: SecretStr = Field(
        description="redis://user:password@host:6379/0, or rediss:// with TLS; several servers separated by commas: the"
        " first that is a master. With `sentinels` the host is the name that they have for the master.",
    )
    sentinels: SecretStr | None = Field(
        None, description="Addresses of Sentinels like those of `url`, separated by commas: they say who the master is."
    )
    cluster: bool = Field(
        False,
        description="Whether `url` has addresses of a Redis Cluster: one or several nodes, which tell of the others."
        " Each stream has its own order then.",
    )
    stream: str = Field(
        "{topic}", description="The stream, a template of `{topic}`, `{key}` and `{header.NAME}` (`{{` for a brace)."
    )
    key_field: str | None = Field(
        "key", min_length=1, max_length=255, description="The field that has the message's key; null: none has it."
    )
    value_field: str = Field(
        "payload", min_length=1, max_length=255, description="The field that has the message's value."
    )
    create_streams: bool = Field(
        True, description="Whether a stream that does not exist is made. Otherwise its messages are refused."
    )
    max_entries: int | None = Field(
        None, ge=1, description="How many entries a stream keeps, or somewhat more (MAXLEN ~), read or not."
    )
    max_age: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="How long a stream keeps an entry at least (MINID ~), read or not.",
        json_schema_extra={"unit": "seconds"},
    )
    wait_replicas: int = Field(
        0, ge=0, description="How many replicas have to have a message before it is durable (WAIT)."
    )
    wait_aof: bool = Field(
        False,
        description="Whether a message is durable only when it is on disk in the append-only file (WAITAOF, Redis 7.2"
        " or later): the server's, and those of `wait_replicas` replicas.",
    )
    positions_key: str = Field(
        "walrelay:positions",
        min_length=1,
        description="How the keys begin that hold the positions of relays: a hash for each.",
    )

    @field_validator("stream")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        return is_address_template(text)

    @field_validator("url", "sentinels")
    @classmethod
    def _has_addresses(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            _addresses(url, _PORT)
        return url

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.max_entries is not None and self.max_age is not None:
            raise ValueError("max_entries and max_age exclude each other: Redis trims by one of them")
        if self.key_field == self.value_field:
            raise ValueError("key_field and value_field are the same")
        if self.sentinels is not None and len(self.servers) > 1:
            raise ValueError("with sentinels, url has one address: its host is the master's name")
        if self.cluster and self.sentinels is not None:
            raise ValueError("cluster and sentinels exclude each other: a cluster chooses its masters itself")
        if self.cluster and any(server.database for server in self.servers):
            raise ValueError("a Redis Cluster has one database, 0")
        return self

    @property
    def servers(self) -> list[Address]:
        """Those of `url`."""
        return _addresses(self.url, _PORT)

    @property
    def shown(self) -> str:
        """Where Redis is, without a user."""
        return ", ".join(map(str, self.servers))

    @property
    def sentinel_servers(self) -> list[Address]:
        """Those of `sentinels`."""
        return [] if self.sentinels is None else _addresses(self.sentinels, _SENTINELS_PORT)


def _addresses(url: SecretStr, port: int) -> list[Address]:
    """ValueError, which does not show the text, where it is none."""
    found = []
    for text in url.get_secret_value().split(","):
        parts = url_parts(text.strip())
        database = parts.path.strip("/") or "0"
        if parts.scheme not in ("redis", "rediss") or not parts.hostname or parts.query or not database.isdigit():
            raise ValueError("an address is redis://user:password@host:6379/0, or begins with rediss://")
        user, password = (text and unquote(text) for text in (parts.username, parts.password))
        found.append(
            Address(parts.hostname, parts.port or port, user or None, password, int(database), parts.scheme == "rediss")
        )
    return found
