"""The settings of the Pub/Sub sink."""

import os
import re
from typing import NamedTuple

from pydantic import Field, field_validator, model_validator

from walrelay.sinks.address import is_address_template
from walrelay.sinks.hosting.settings import HostedSettings, TlsSettings

GLOBAL = "pubsub.googleapis.com"
_EMULATOR = "PUBSUB_EMULATOR_HOST"
_ENDPOINT = re.compile(r"(?:(https?)://)?(\[[0-9A-Fa-f:.]+\]|[^\s/:@\[\]]+)(?::([0-9]{1,5}))?/?")


class PubsubPlace(NamedTuple):
    """Where Pub/Sub is: `host:port`, and whether it is spoken to with TLS and credentials."""

    address: str
    tls: bool


class PubsubSettings(HostedSettings, TlsSettings):
    """`kind: pubsub`: messages with ordering keys, each with an id from Pub/Sub; in order per key."""

    project: str = Field(pattern=r"^[a-z0-9][a-z0-9.:\-]*$", description="The id of the project that has the topics.")
    topic: str = Field(
        "{topic}",
        description="The topic's id, a template of `{topic}`, `{key}` and `{header.NAME}`; projects/PROJECT/topics/ID"
        " for another project.",
    )
    endpoint: str | None = Field(
        None,
        description="HOST:PORT, best that of a region: messages are in order where all of a key go to one region."
        " http://HOST:PORT is an emulator: no TLS, no credentials. Without it, PUBSUB_EMULATOR_HOST of the environment,"
        " or pubsub.googleapis.com:443.",
    )
    credentials_file: str | None = Field(
        None,
        description="The key of a service account, as JSON. Without it, Application Default Credentials: the file that"
        " GOOGLE_APPLICATION_CREDENTIALS names, of any kind of Google's, or what the machine has.",
    )
    key_header: str | None = Field(
        None,
        min_length=1,
        description="An attribute that has the message's key, beside the ordering key, for filters; null: none has it.",
    )

    @field_validator("topic")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        return is_address_template(text)

    @field_validator("endpoint")
    @classmethod
    def _is_an_endpoint(cls, text: str | None) -> str | None:
        if text is not None:
            _place(text)
        return text

    @model_validator(mode="after")
    def _keeps_secrets(self) -> "PubsubSettings":
        if self.endpoint is not None and not _place(self.endpoint).tls and self.credentials_file is not None:
            raise ValueError("credentials_file is not used without TLS: endpoint begins with http://")
        return self

    @property
    def place(self) -> PubsubPlace:
        """ValueError where the environment's emulator has no address."""
        if self.endpoint is not None:
            return _place(self.endpoint)
        if emulator := os.environ.get(_EMULATOR):
            return _place(f"http://{emulator.removeprefix('http://')}")
        return _place(GLOBAL)


def _place(text: str) -> PubsubPlace:
    found = _ENDPOINT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no endpoint, which is HOST:PORT, or http://HOST:PORT for an emulator")
    scheme, host, port = found.groups()
    tls = scheme != "http"
    return PubsubPlace(f"{host}:{port or (443 if tls else 80)}", tls)
