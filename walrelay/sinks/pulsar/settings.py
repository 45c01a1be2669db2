"""The settings of the Pulsar sink."""

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from walrelay.sinks.address import is_address_template
from walrelay.sinks.hosting.settings import HostedSettings, TlsSettings


class PulsarSettings(HostedSettings, TlsSettings):
    """`kind: pulsar`: messages in persistent topics, each acknowledged by its bookies; in order per key."""

    url: str = Field(
        description="pulsar://broker-1:6650,broker-2:6650, or pulsar+ssl:// with TLS: any brokers of the cluster, or"
        " its proxy.",
    )
    topic: str = Field(
        "persistent://public/default/{topic}",
        description="The topic with its tenant and namespace, a template of `{topic}`, `{key}` and `{header.NAME}`.",
    )
    ordering_key: str | None = Field(
        None,
        description="What Key_Shared subscriptions tell consumers apart by instead of the key, a template as that of"
        " the topic. The partition is always that of the key.",
    )
    token: SecretStr | None = Field(None, description="The token of the relay.")
    token_file: str | None = Field(
        None, description="A file with the token, which is read anew for each connection: it may be renewed."
    )
    username: str | None = Field(None, description="Basic authentication: the user's name.")
    password: SecretStr | None = Field(None, description="Basic authentication: the user's password.")
    null_headers: Literal["refuse", "omit"] = Field(
        "refuse",
        description="What becomes of a header without a value, which Pulsar cannot have: refuse its message, or omit"
        " the header.",
    )
    batching: bool = Field(
        True, description="Whether messages of a partition travel together. Off: several times slower."
    )
    compression: Literal["none", "lz4", "zlib", "zstd", "snappy"] = Field(
        "none", description="How batches are compressed."
    )
    max_message_size: int = Field(
        5 * 2**20,
        ge=2**10,
        description="A message that has more with its headers is refused. maxMessageSize of the brokers, which has the"
        " same default, must not be less.",
        json_schema_extra={"unit": "bytes"},
    )
    max_producers: int = Field(
        1_000,
        ge=1,
        description="Topics that the relay is a producer of at a time; the one that rests longest makes room.",
    )
    admin_url: str | None = Field(
        None,
        pattern="^https?://",
        description="http://broker:8080, or https://: where `walrelay doctor` asks about topics and namespaces, and"
        " `walrelay init --topics` makes topics. Publishing does not need it.",
    )

    @field_validator("topic")
    @classmethod
    def _is_a_topic(cls, text: str) -> str:
        if not text.startswith(("persistent://", "{")):
            raise ValueError("a topic begins with persistent://, and what is in it is durable")
        return is_address_template(text)

    @field_validator("ordering_key")
    @classmethod
    def _is_a_template(cls, text: str | None) -> str | None:
        return None if text is None else is_address_template(text)

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        if urlsplit(url).scheme not in ("pulsar", "pulsar+ssl"):
            raise ValueError("an address begins with pulsar:// or pulsar+ssl://")
        hosts = url.partition("://")[2].rstrip("/").split(",")
        if not all(each.strip() and "@" not in each and "/" not in each for each in hosts):
            raise ValueError("an address has hosts, and no password: pulsar://broker-1:6650,broker-2:6650")
        return url

    @model_validator(mode="after")
    def _agrees(self) -> "PulsarSettings":
        given = [self.token, self.token_file, self.username]
        if sum(each is not None for each in given) > 1:
            raise ValueError("token, token_file and username exclude each other")
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together")
        return self
