"""The settings of the RabbitMQ sink."""

from string import Formatter
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

_NAMES = "topic", "key"


class RabbitmqSettings(BaseModel):
    """`kind: rabbitmq`: persistent messages, each confirmed by the broker and in a queue; in order per key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: SecretStr = Field(
        description="amqp://user:password@host:5672/vhost, or amqps:// with TLS; several nodes of a cluster separated"
        " by commas, tried in that order.",
    )
    exchange: str = Field(
        "",
        description="The exchange, a template of `{topic}`, `{key}` and `{header.NAME}`. Empty: RabbitMQ's default"
        " exchange, whose routing key is the queue's name.",
    )
    routing_key: str = Field("{topic}", description="The routing key, a template as that of the exchange.")
    key_header: str | None = Field(
        "key", min_length=1, max_length=255, description="The header that has the message's key; null: none has it."
    )
    mandatory: bool = Field(
        True,
        description="Whether a message that no queue takes is refused. RabbitMQ confirms it otherwise, and throws it"
        " away.",
    )
    content_type: str | None = Field(
        None, max_length=255, description="The property of messages that have no header `content-type`."
    )
    ordering: Literal["per_key", "pipelined"] = Field(
        "per_key",
        description="per_key: one unconfirmed message a topic and key. pipelined: faster, and a message that RabbitMQ"
        " loses or refuses is overtaken by later ones of its key.",
    )
    max_in_flight: int = Field(2_000, ge=1, description="Messages that may wait for RabbitMQ before reading pauses.")
    max_in_flight_bytes: int = Field(
        32 * 2**20, ge=2**20, description="Bytes of messages that may wait for RabbitMQ before reading pauses."
    )
    request_timeout: float = Field(
        30,
        gt=0,
        allow_inf_nan=False,
        description="A message without an answer for so long, and a connection that takes so long, end the run, and it"
        " begins anew. Not while RabbitMQ says why it takes nothing.",
        json_schema_extra={"unit": "seconds"},
    )
    ca_file: str | None = Field(None, description="amqps: the certificates to trust instead of the system's, PEM.")
    certificate_file: str | None = Field(None, description="amqps: the relay's own certificate, PEM.")
    key_file: str | None = Field(None, description="amqps: its private key, PEM; without one it is in the certificate.")

    @field_validator("exchange", "routing_key")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        template(text)
        return text

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: SecretStr) -> SecretStr:
        for each in addresses(url):
            if not each.startswith(("amqp://", "amqps://")):
                raise ValueError("an address begins with amqp:// or amqps://")
        return url


def addresses(url: SecretStr) -> list[str]:
    """Those of the setting `url`."""
    return [each.strip() for each in url.get_secret_value().split(",")]


def template(text: str) -> list[tuple[str, str]]:
    """(literal text, what comes behind it): "topic", "key", "header.NAME" or ""; ValueError if it is no template."""
    try:
        parts = [
            (literal, name)
            for literal, name, form, conversion in Formatter().parse(text)
            if not _more(form, conversion)
        ]
    except ValueError as why:
        raise ValueError(f"{text!r} is no template: {why}") from why
    for _, name in parts:
        if name is not None and name not in _NAMES and not (name.startswith("header.") and len(name) > len("header.")):
            raise ValueError(f"{{{name}}} is unknown: a template has {{topic}}, {{key}} and {{header.NAME}}")
    return [(literal, name or "") for literal, name in parts]


def _more(form: str | None, conversion: str | None) -> bool:
    if form or conversion:
        raise ValueError("a template has no formats and conversions")
    return False
