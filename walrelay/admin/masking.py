"""Settings as they can be shown: without secrets, and without what may be one."""

import re
from typing import Any

from pydantic import BaseModel

from walrelay.config import Settings
from walrelay.postgres.dsn import address

MASK = "**********"

_SECRET = re.compile(r"passw|secret|token|credential|api_?key|access_?key|private|sasl\.jaas|authorization", re.I)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")


def shown_settings(settings: Settings) -> dict[str, Any]:
    """A SecretStr is masked by pydantic; so is every text below a key that sounds like one, and what stands before the
    @ of an address.
    """
    shown: dict[str, Any] = _masked(_dumped(settings), "")
    shown["source"]["dsn"] = address(settings.source.dsn.get_secret_value())
    return shown


def _dumped(model: BaseModel) -> Any:
    return model.model_dump(mode="json", by_alias=True, fallback=lambda value: str(type(value).__name__))


def _masked(value: Any, key: str) -> Any:
    match value:
        case dict():
            return {str(name): _masked(item, str(name)) for name, item in value.items()}
        case list():
            return [_masked(item, key) for item in value]
        case str() if value and _SECRET.search(key):
            return MASK
        case str():
            return _USER_INFO.sub(f"{MASK}@", value)
        case _:
            return value
