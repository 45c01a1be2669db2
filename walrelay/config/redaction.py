"""The settings as others may see them: what is secret in them, and what is left without it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr

from walrelay.postgres.dsn import conninfo_fault, passwords, without_password

HIDDEN = "***"

_SHORTEST = 4  # characters; what is shorter stands in every text
_USER = re.compile(r"(?<=://)[^/\s@\"']+(?=@)")

# Options of client libraries that say how, and not who. Any other text among them may be a secret.
_HARMLESS = {
    "acks",
    "client.id",
    "compression.type",
    "partitioner",
    "sasl.mechanism",
    "sasl.mechanisms",
    "security.protocol",
}


def redacted(settings: BaseModel) -> dict[str, Any]:
    """As JSON has it. Of a connection string of PostgreSQL all but the passwords is left."""
    fields = type(settings).model_fields.items()
    return {field.alias or name: _shown(name, getattr(settings, name)) for name, field in fields}


def _shown(name: str, value: Any) -> Any:
    match value:
        case BaseModel():
            return redacted(value)
        case SecretStr():
            return _shown_secret(name, value.get_secret_value())
        case Mapping():
            return {str(key): _shown(str(key), each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_shown("", each) for each in value]
        case bool() | int() | float() | None:
            return value
    return without_users(str(value))


def _shown_secret(name: str, text: str) -> str:
    if name in _HARMLESS:
        return text
    return without_password(text) if _is_dsn(name, text) else HIDDEN


def secrets(settings: BaseModel) -> set[str]:
    """The texts that no output may show."""
    found = {each for name, text in _secret_texts("", settings) for each in _secret_parts(name, text)}
    return {each for each in found if len(each) >= _SHORTEST}


def _secret_texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case BaseModel():
            for each in type(value).model_fields:
                yield from _secret_texts(each, getattr(value, each))
        case SecretStr() if name not in _HARMLESS:
            yield name, value.get_secret_value()
        case Mapping():
            for key, each in value.items():
                yield from _secret_texts(str(key), each)
        case list() | tuple() | set() | frozenset():
            for each in value:
                yield from _secret_texts(name, each)


def _secret_parts(name: str, text: str) -> Iterator[str]:
    """The whole, and what is secret in an address of it; of a connection string of PostgreSQL the passwords alone."""
    if _is_dsn(name, text):
        yield from passwords(text)
        return
    yield text
    for each in text.split(","):
        if "://" in each:
            try:
                url = urlsplit(each)
            except ValueError:
                continue
            for part in (url.password, url.username if url.password is None else None):
                if part:
                    yield from (part, unquote(part))


def _is_dsn(name: str, text: str) -> bool:
    return name == "dsn" and not conninfo_fault(text)


def without_users(text: str) -> str:
    """Addresses in it have no user and no password."""
    return _USER.sub(HIDDEN, text)


def scrubbed(text: str, known: set[str]) -> str:
    """Without these texts, however JSON writes them, and without users of addresses."""
    for each in sorted(known, key=len, reverse=True):
        escaped = each.replace("\\", "\\\\").replace('"', '\\"')
        for form in {each, escaped}:
            text = text.replace(form, HIDDEN)
    return without_users(text)
