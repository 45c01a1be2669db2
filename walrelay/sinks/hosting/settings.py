"""The settings that hosted sinks have in common."""

import ssl

from pydantic import BaseModel, ConfigDict, Field

from walrelay.errors import Fatal
from walrelay.sinks.hosting.sink import Window


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
        description="A message without an answer for so long, and a connection that takes so long, end the run, and it"
        " begins anew. Not while the broker says why it takes nothing.",
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
        """Fatal where a file cannot be read."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file)
        except (OSError, ssl.SSLError) as why:
            raise Fatal(
                f"the certificates for {broker} cannot be read: {why}", hint="Correct the files under sink."
            ) from why
        return context
