"""The settings of the RabbitMQ sink."""

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from walrelay.sinks.address import is_address_template, url_parts
from walrelay.sinks.hosting.settings import HostedSettings, TlsSettings


class RabbitmqSettings(HostedSettings, TlsSettings):
    """`kind: rabbitmq`: persistent messages, each confirmed by the broker and in a queue; in order per key."""

    url: SecretStr = Field(
        description="amqp://user:password@host:5672/vhost, or amqps:// with TLS; several nodes of a cluster separated"
        " by commas, tried in that order.",
    )
    exchange: str = Field(
        "",
        description="The exchange, a template of `{topic}`, `{key}` and `{header.NAME}`. Empty: RabbitMQ's default"
        " exchange, whose routing key is the queue's name.",
    )
    exchange_type: Literal["topic", "fanout", "direct", "headers"] = Field(
        "topic", description="What `walrelay init --topics` declares the exchange as. MassTransit's are fanout."
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

    @field_validator("exchange", "routing_key")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        return is_address_template(text)

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: SecretStr) -> SecretStr:
        for each in addresses(url):
            if not each.startswith(("amqp://", "amqps://")):
                raise ValueError("an address begins with amqp:// or amqps://")
            url_parts(each)
        return url


def addresses(url: SecretStr) -> list[str]:
    """Those of the setting `url`."""
    return [each.strip() for each in url.get_secret_value().split(",")]
