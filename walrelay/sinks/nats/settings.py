"""The settings of the NATS sink."""

from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from walrelay.sinks.address import is_address_template, url_parts
from walrelay.sinks.hosting.settings import HostedSettings, TlsSettings
from walrelay.sinks.nats.subjects import subject_fault


class NatsSettings(HostedSettings, TlsSettings):
    """`kind: nats`: messages that JetStream acknowledges, each in a stream; in order per key."""

    url: SecretStr = Field(
        description="nats://user:password@host:4222 or nats://token@host:4222, with tls:// instead of nats:// only with"
        " TLS; several servers of a cluster separated by commas, tried in any order.",
    )
    credentials_file: str | None = Field(None, description="A .creds file, with the user's JWT and seed.")
    nkey_file: str | None = Field(None, description="A file with an nkey's seed.")
    subject: str = Field("{topic}", description="The subject, a template of `{topic}`, `{key}` and `{header.NAME}`.")
    stream: str | None = Field(
        None,
        pattern=r"^[^\s.*>/\\]+$",
        description="The stream that all messages must be stored in, and that `walrelay init --topics` makes. Without"
        " it a message is stored in whichever stream has its subject.",
    )
    key_header: str | None = Field(
        "key",
        pattern=r"^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$",
        description="The header that has the message's key; null: none has it.",
    )
    ordering: Literal["per_key", "chained", "pipelined"] = Field(
        "per_key",
        description="per_key: one unacknowledged message a subject's key. chained: each message is stored only behind"
        " the one before it, for a `stream` that nobody else writes to. pipelined: a message that NATS loses is"
        " overtaken by later ones.",
    )
    positions_stream: str = Field(
        "walrelay_positions",
        pattern=r"^[^\s.*>/\\]+$",
        description="delivery: exactly_once: the stream that holds the relays' positions; made if missing.",
    )
    inbox_prefix: str = Field("_INBOX", description="What the subjects begin with that NATS answers the relay at.")

    @field_validator("subject")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        return is_address_template(text)

    @field_validator("inbox_prefix")
    @classmethod
    def _is_a_subject(cls, text: str) -> str:
        if fault := subject_fault(text):
            raise ValueError(fault)
        return text

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: SecretStr) -> SecretStr:
        parts = [url_parts(each) for each in addresses(url)]
        schemes = {each.scheme for each in parts}
        if not schemes <= {"nats", "tls"}:
            raise ValueError("an address begins with nats:// or tls://")
        if len(schemes) > 1:
            raise ValueError("the addresses of a cluster begin all with nats://, or all with tls://")
        if not all(each.hostname for each in parts):
            raise ValueError("an address has a host: nats://host:4222")
        return url

    @model_validator(mode="after")
    def _agrees(self) -> "NatsSettings":
        if self.ordering == "chained" and self.stream is None:
            raise ValueError("ordering: chained needs the name of the stream: set stream")
        if self.credentials_file and self.nkey_file:
            raise ValueError("credentials_file and nkey_file exclude each other")
        return self


def addresses(url: SecretStr) -> list[str]:
    """Those of the setting `url`."""
    return [each.strip() for each in url.get_secret_value().split(",")]
