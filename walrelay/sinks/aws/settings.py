"""The settings that all sinks of AWS have."""

from typing import Self

from pydantic import Field, SecretStr, model_validator

from walrelay.sinks.hosting.settings import HostedSettings


class AwsSettings(HostedSettings):
    """Region, endpoint and credentials. What is not set is found as by every program that uses boto3."""

    region: str | None = Field(
        None, min_length=1, description="The region. Unset: that of an ARN, AWS_DEFAULT_REGION, or the profile's."
    )
    endpoint_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s@]+$",
        description="Where the service is, if not where AWS has it: a VPC endpoint, LocalStack.",
    )
    profile: str | None = Field(None, min_length=1, description="The profile of ~/.aws that has the credentials.")
    access_key_id: str | None = Field(
        None,
        min_length=1,
        description="The key, with `secret_access_key`. Unset: boto3 looks for one (environment, files, container,"
        " instance).",
    )
    secret_access_key: SecretStr | None = Field(None, description="The key's secret.")
    session_token: SecretStr | None = Field(None, description="Of a key that is valid for a while.")
    role_arn: str | None = Field(
        None,
        pattern=r"^arn:[^\s:]+:iam::\d*:role/\S+$",
        description="A role to assume with these credentials; its own are renewed before they end.",
    )
    external_id: SecretStr | None = Field(None, min_length=2, description="What the role asks for besides.")
    ca_file: str | None = Field(None, description="TLS: the certificates to trust instead of botocore's, PEM.")
    max_connections: int = Field(16, ge=1, le=200, description="Requests that may be on their way at once.")

    @model_validator(mode="after")
    def _credentials_go_together(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("access_key_id and secret_access_key go together")
        if self.session_token is not None and self.access_key_id is None:
            raise ValueError("session_token needs access_key_id and secret_access_key")
        if self.profile is not None and self.access_key_id is not None:
            raise ValueError("profile and access_key_id exclude each other")
        if self.external_id is not None and self.role_arn is None:
            raise ValueError("external_id needs role_arn")
        return self
