"""The settings of the SNS sink."""

from typing import Literal

from pydantic import Field, field_validator

from walrelay.sinks.address import is_address_template
from walrelay.sinks.aws.settings import AwsSettings
from walrelay.sinks.aws.texts import Format


class SnsSettings(AwsSettings):
    """`kind: sns`: messages of FIFO topics, whose groups are the keys; in order per key."""

    topic_arn: str = Field(
        description="The topic's ARN, a template of `{topic}`, `{key}` and `{header.NAME}`:"
        " arn:aws:sns:eu-west-1:123456789012:{topic}.fifo."
    )
    format: Format = Field(
        "text",
        description="text: the payload is the message, and headers are its attributes. base64: the same, with the"
        " payload in base64. document: the message is a JSON object with key, headers and payload.",
    )
    key_header: str | None = Field(
        "key",
        pattern=r"^[A-Za-z0-9_-]{1,256}$",
        description="The attribute that has the message's key; null: none has it.",
    )
    ordering: Literal["per_key", "none"] = Field(
        "per_key", description="per_key: FIFO topics only. none: standard topics only, which have no order."
    )
    max_message_bytes: int = Field(
        262_144,
        ge=1_024,
        le=1_048_576,
        description="The topics' MaximumMessageSize, which is also that of a request of several messages.",
    )

    @field_validator("topic_arn")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        if not text.startswith(("arn:", "{")):
            raise ValueError("a topic of SNS is an ARN: arn:aws:sns:REGION:ACCOUNT:NAME.fifo")
        return is_address_template(text)
