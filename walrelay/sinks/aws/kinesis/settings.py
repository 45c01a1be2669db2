"""The settings of the Kinesis sink."""

from typing import Literal

from pydantic import Field, field_validator

from walrelay.sinks.address import is_address_template
from walrelay.sinks.aws.settings import AwsSettings


class KinesisSettings(AwsSettings):
    """`kind: kinesis`: records of data streams, whose partition keys are the keys; in order per key."""

    stream: str = Field(
        "{topic}", description="The stream, a template of `{topic}`, `{key}` and `{header.NAME}`: its name or ARN."
    )
    format: Literal["document", "value"] = Field(
        "document",
        description="document: a record is a JSON object with key, headers and payload. value: it is the payload alone,"
        " and a message whose row has headers is refused.",
    )
    ordering: Literal["per_key", "strict"] = Field(
        "per_key",
        description="per_key: one record of a key is on its way at a time. strict: each is a request of its own,"
        " with the sequence number of the one before (SequenceNumberForOrdering).",
    )
    max_record_bytes: int = Field(
        1_048_576, ge=1_024, le=10_485_760, description="The streams' MaxRecordSize, partition key included."
    )

    @field_validator("stream")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        return is_address_template(text)
