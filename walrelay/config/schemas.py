"""The schema registry, and a rule's schema, as they are written in the settings, and as the encoder takes them."""

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from walrelay.config.values import RuleTemplate, Section, SectionError, checked
from walrelay.route.rules.schemas import OwnSchema, PayloadSchema, Reference

_MODULES = {"avro": "avro", "json-schema": "json_schema", "protobuf": "protobuf"}
_SET = {
    "url": "url",
    "basic.auth.user.info": "username and schema_registry.password",
    "timeout": "timeout",
}
_OURS = {"max.retries", "retries.wait.ms", "retries.max.wait.ms", "cache.latest.ttl.sec"}


def _registry_url(text: str) -> None:
    for url in text.split(","):
        if not url.strip().startswith(("http://", "https://", "mock://")):
            raise ValueError(f"{url.strip()!r} is no address of a registry: write http://host:8081")


class SchemaRegistrySettings(Section):
    """Confluent's Schema Registry, or one with its API. `walrelay docs schemas` explains it in full."""

    url: Annotated[str, AfterValidator(checked(_registry_url))]
    """Its address, up to where `/subjects` follows; several are separated by commas, and tried in turn."""

    username: str | None = None
    """For basic authentication; in Confluent Cloud the API key."""

    password: SecretStr | None = None
    """Its password; in Confluent Cloud the API secret."""

    timeout: Annotated[float, Field(gt=0, le=30, allow_inf_nan=False, json_schema_extra={"unit": "seconds"})] = 5
    """How long one question may take. The relay does nothing else meanwhile: keep it below a quarter of the server's
    wal_sender_timeout."""

    options: dict[str, bool | int | float | str | SecretStr] = Field(default_factory=dict)
    """Any other option of confluent-kafka's SchemaRegistryClient: ssl.ca.location, ssl.certificate.location,
    ssl.key.location, bearer.auth.* ..."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.username is None) != (self.password is None):
            missing = "password" if self.password is None else "username"
            raise SectionError((), f"{missing} is missing: username and password go together")
        if "@" in self.url:
            raise SectionError(("url",), "holds a user: write schema_registry.username and schema_registry.password")
        for name in self.options:
            if name in _SET:
                raise SectionError(("options", name), f"has a setting of its own: schema_registry.{_SET[name]}")
            if name in _OURS:
                raise SectionError(("options", name), "is set by walrelay, which asks again by itself")
        return self

    @property
    def client_options(self) -> dict[str, Any]:
        """The configuration for a SchemaRegistryClient."""
        options: dict[str, Any] = {
            name: each.get_secret_value() if isinstance(each, SecretStr) else each
            for name, each in self.options.items()
        }
        if self.username is not None and self.password is not None:
            options["basic.auth.user.info"] = f"{self.username}:{self.password.get_secret_value()}"
        return {"url": self.url, "timeout": self.timeout, **options}


class ReferenceSettings(Section):
    """A schema of the registry that the one in `file` names."""

    name: Annotated[str, Field(min_length=1)]
    """As it is named there."""

    subject: Annotated[str, Field(min_length=1)]
    """Its subject."""

    version: Annotated[int, Field(ge=1)]
    """Its version."""


class SchemaSettings(Section):
    """The schema by which a payload of JSON is encoded. `walrelay docs schemas` explains it in full."""

    format: Literal["none", "avro", "json-schema", "protobuf"] = "none"
    """none: the payload as it is. Otherwise it is encoded, and begins with the schema's id, as Confluent's serializers
    write it. A payload that the writer has encoded so stays as it is."""

    subject: Literal["topic", "record", "topic-record"] = "topic"
    """topic: `TOPIC-value`. record: the record's name. topic-record: `TOPIC-` and the record's name."""

    record: RuleTemplate | None = None
    """A template for the record's full name, as in `com.shop.{type}`. For protobuf it is also the message of the
    file, which is the first one without it."""

    version: RuleTemplate = "latest"
    """latest, a number, or a template for one, as in `{column.schema_version}`."""

    id: RuleTemplate | None = None
    """A template for the schema's id, as in `{column.schema_id}`, instead of a version of the subject."""

    file: Annotated[str, Field(min_length=1)] | None = None
    """A file with the schema, instead of a version of the subject. The subject has to have it."""

    references: tuple[ReferenceSettings, ...] = ()
    """The schemas that the one in `file` names."""

    auto_register: bool = False
    """true: the schema in `file` is registered where the subject does not have it."""

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.format == "none":
            if given := sorted(self.model_fields_set - {"format"}):
                raise SectionError((given[0],), "says how to encode, but the format is none")
            return self
        if self.subject != "topic" and self.record is None:
            raise SectionError(("subject",), f"{self.subject} is made of the record's full name: set record")
        given = [name for name in ("version", "id", "file") if name in self.model_fields_set and getattr(self, name)]
        if len(given) > 1:
            raise SectionError((given[1],), f"says which schema, and so does {given[0]}: leave one out")
        for name in ("references", "auto_register"):
            if getattr(self, name) and self.file is None:
                raise SectionError((name,), "is about the schema in `file`, and there is none")
        if self.file is not None and self.format == "protobuf":
            raise SectionError(("file",), "is for avro and json-schema: walrelay has no compiler for .proto files")
        try:
            import_module(f"confluent_kafka.schema_registry.{_MODULES[self.format]}")
        except ImportError as error:
            text = f"{self.format} needs a package that is missing ({error}): pip install 'walrelay[schemas]'"
            raise SectionError(("format",), text) from None
        self._own()
        return self

    @property
    def schema_of_payloads(self) -> PayloadSchema | None:
        """As the router takes it; None for the payload as it is."""
        if self.format == "none":
            return None
        return PayloadSchema(self.format, self.subject, self.record, self.version, self.id, self._own())

    def _own(self) -> OwnSchema | None:
        if self.file is None:
            return None
        references = tuple(Reference(each.name, each.subject, each.version) for each in self.references)
        return OwnSchema(_text_of(self.file), references, self.auto_register)


def _text_of(file: str) -> str:
    try:
        text = Path(file).read_text(encoding="utf-8")
        json.loads(text)
    except OSError as error:
        raise SectionError(("file",), f"{file!r} cannot be read: {error.strerror}") from None
    except ValueError:
        raise SectionError(("file",), f"{file!r} holds no JSON, as schemas of avro and json-schema are") from None
    return text
