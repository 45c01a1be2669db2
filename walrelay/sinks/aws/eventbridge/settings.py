"""The settings of the EventBridge sink."""

from typing import Literal

from pydantic import Field, field_validator

from walrelay.sinks.address import is_address_template
from walrelay.sinks.aws.settings import AwsSettings


class EventbridgeSettings(AwsSettings):
    """`kind: eventbridge`: events on a bus, which has no order; they are sent in order per key."""

    bus: str = Field(
        "default", description="The event bus, a template of `{topic}`, `{key}` and `{header.NAME}`: its name or ARN."
    )
    source: str = Field("{topic}", description="The events' source, a template as that of the bus.")
    detail_type: str = Field("{header.type}", description="The events' detail-type, a template as that of the bus.")
    format: Literal["document", "value"] = Field(
        "document",
        description="document: the detail is a JSON object with key, headers and payload. value: it is the payload,"
        " which has to be a JSON object, and a message whose row has headers is refused.",
    )

    @field_validator("bus", "source", "detail_type")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        return is_address_template(text)
