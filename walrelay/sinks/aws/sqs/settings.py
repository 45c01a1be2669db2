"""The settings of the SQS sink."""

from typing import Literal

from pydantic import Field, field_validator

from walrelay.sinks.address import is_address_template
from walrelay.sinks.aws.settings import AwsSettings
from walrelay.sinks.aws.texts import Format


class SqsSettings(AwsSettings):
    """`kind: sqs`: messages of FIFO queues, whose groups are the keys; in order per key."""

    queue: str = Field(
        "{topic}",
        description="The queue, a template of `{topic}`, `{key}` and `{header.NAME}`: its name, ARN or URL.",
    )
    format: Format = Field(
        "text",
        description="text: the payload is the message's body, and headers are its attributes. base64: the same, with"
        " the payload in base64. document: the body is a JSON object with key, headers and payload.",
    )
    key_header: str | None = Field(
        "key",
        pattern=r"^[A-Za-z0-9_-]{1,256}$",
        description="The attribute that has the message's key; null: none has it.",
    )
    ordering: Literal["per_key", "none"] = Field(
        "per_key", description="per_key: FIFO queues only. none: standard queues only, which have no order."
    )

    @field_validator("queue")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        return is_address_template(text)
