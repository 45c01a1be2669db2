"""The settings of the Azure Service Bus sink."""

from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from walrelay.sinks.address import is_address_template
from walrelay.sinks.hosting.settings import HostedSettings


class ServicebusSettings(HostedSettings):
    """`kind: servicebus`: messages that Azure Service Bus accepts, in batches; in the order of each queue or topic."""

    connection_string: SecretStr | None = Field(
        None,
        description="Endpoint=sb://NAME.servicebus.windows.net/;SharedAccessKeyName=...;SharedAccessKey=..., of a"
        " policy with the right to send.",
    )
    namespace: str | None = Field(
        None,
        description="NAME.servicebus.windows.net, instead of a connection string. The credentials are then those of the"
        " environment: a managed identity, a workload identity, AZURE_CLIENT_ID and its like, or the Azure CLI's.",
    )
    tenant_id: str | None = Field(None, description="With `namespace`: the tenant of an application that signs in.")
    client_id: str | None = Field(
        None, description="With `namespace`: the application that signs in, or the managed identity to take."
    )
    client_secret: SecretStr | None = Field(None, description="With `namespace`: the application's secret.")
    ca_file: str | None = Field(None, description="TLS: the certificates to trust instead of the system's, PEM.")
    entity: str = Field(
        "{topic}",
        min_length=1,
        description="The queue or topic, a template of `{topic}`, `{key}` and `{header.NAME}`.",
    )
    session_ids: bool = Field(
        True,
        description="Whether the message's key is its session id, for consumers in sessions: they keep the order of a"
        " key. Entities without sessions do without it.",
    )
    key_header: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="An application property that has the message's key; null: none.",
    )
    content_type: str | None = Field(
        None, min_length=1, max_length=255, description="The property of messages that have no header `content-type`."
    )
    partitioned: bool = Field(
        False,
        description="Whether the entities are partitioned. A batch then has messages of one session, as partitions ask"
        " for, and up to `max_connections` batches of different sessions are on their way at once.",
    )
    max_connections: int = Field(
        4,
        ge=1,
        le=100,
        description="Of an entity, if it is partitioned. Otherwise there is one, which keeps the order.",
    )

    @field_validator("entity")
    @classmethod
    def _is_a_template(cls, text: str) -> str:
        return is_address_template(text)

    @field_validator("connection_string")
    @classmethod
    def _is_a_connection_string(cls, text: SecretStr | None) -> SecretStr | None:
        if text is None:
            return None
        parts = dict(part.partition("=")[::2] for part in text.get_secret_value().split(";") if part)
        names = {name.strip().lower() for name in parts}
        endpoint = next((value for name, value in parts.items() if name.strip().lower() == "endpoint"), "")
        if not urlsplit(endpoint).hostname:
            raise ValueError("it has no Endpoint=sb://NAME.servicebus.windows.net/")
        if not ({"sharedaccesskeyname", "sharedaccesskey"} <= names or "sharedaccesssignature" in names):
            raise ValueError("it has neither SharedAccessKeyName and SharedAccessKey nor SharedAccessSignature")
        if "entitypath" in names:
            raise ValueError("it has an EntityPath: leave that out, entity says where messages go")
        return text

    @field_validator("namespace")
    @classmethod
    def _is_a_host(cls, name: str | None) -> str | None:
        if name is not None and (not name or any(letter in name for letter in "/:; ")):
            raise ValueError("a namespace is the name of a host, as in NAME.servicebus.windows.net")
        return name

    @model_validator(mode="after")
    def _agrees(self) -> "ServicebusSettings":
        if (self.connection_string is None) == (self.namespace is None):
            raise ValueError("set either connection_string or namespace")
        if self.namespace is None and (self.tenant_id or self.client_id or self.client_secret):
            raise ValueError("tenant_id, client_id and client_secret go with namespace, not with a connection string")
        if self.client_secret is not None and not (self.tenant_id and self.client_id):
            raise ValueError("client_secret needs tenant_id and client_id")
        if self.tenant_id and self.client_secret is None:
            raise ValueError("tenant_id needs client_secret")
        return self

    @property
    def place(self) -> str:
        """The host, for messages; a connection string is secret."""
        if self.namespace is not None:
            return self.namespace
        assert self.connection_string is not None
        _, _, rest = self.connection_string.get_secret_value().lower().partition("endpoint=")
        return urlsplit(rest.partition(";")[0]).hostname or ""

    @property
    def encrypted(self) -> bool:
        """Microsoft's emulator does without TLS."""
        text = "" if self.connection_string is None else self.connection_string.get_secret_value().lower()
        return "usedevelopmentemulator=true" not in text.replace(" ", "")
