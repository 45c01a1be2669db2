"""The settings that hosted sinks have in common."""

import ssl

from pydantic import BaseModel, ConfigDict, Field

from walrelay.certificates import CertificateFiles
from walrelay.sinks.hosting.contract import Window


class HostedSettings(BaseModel):
    """What may be on its way, and for how long."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_in_flight: int = Field(2_000, ge=1, description="Messages that may wait for the broker before reading pauses.")
    max_in_flight_bytes: int = Field(
        32 * 2**20, ge=2**20, description="Bytes of messages that may wait for the broker before reading pauses."
    )
    request_timeout: float = Field(
        30,
        gt=0,
        allow_inf_nan=False,
        description="A message without an answer for so long, and a connection that takes so long, end the"
        " connection, and the next one sends what has no answer. Not while the broker says why it takes nothing.",
        json_schema_extra={"unit": "seconds"},
    )

    @property
    def window(self) -> Window:
        return Window(self.max_in_flight, self.max_in_flight_bytes, self.request_timeout)


class TlsSettings(BaseModel):
    """Certificates, beside a user's name and password or instead of them."""

    ca_file: str | None = Field(None, description="TLS: the certificates to trust instead of the system's, PEM.")
    certificate_file: str | None = Field(None, description="TLS: the relay's own certificate, PEM.")
    key_file: str | None = Field(None, description="TLS: its private key, PEM; without one it is in the certificate.")

    def context(self, broker: str) -> ssl.SSLContext:
        """For the next connection; see `CertificateFiles.context`."""
        return self.certificate_files.context(broker)

    @property
    def certificate_files(self) -> CertificateFiles:
        return CertificateFiles(self.ca_file, self.certificate_file, self.key_file)
