"""The administrator's REST interface of Pulsar: what a namespace does with messages, and which topics there are."""

import json
import ssl
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote

from walrelay.errors import SinkError, WalrelayError
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.pulsar.settings import PulsarSettings
from walrelay.sinks.pulsar.topics import address_fault

_TIMEOUT = 10.0  # seconds
_MISSING, _CONFLICT = 404, 409


class AdminError(WalrelayError):
    """What is asked for cannot be had; `status`: that of HTTP, 0 where nothing answered."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class PulsarAdmin:
    """At `sink.admin_url`, with the credentials of the sink."""

    def __init__(self, settings: PulsarSettings) -> None:
        assert settings.admin_url is not None
        self._settings, self._url = settings, settings.admin_url.rstrip("/")
        https = settings.admin_url.startswith("https://")
        self._context: ssl.SSLContext | None = settings.context("Pulsar") if https else None

    def __call__(self, method: str, path: str, content: Any = None) -> Any:
        """What it answers; AdminError otherwise."""
        request = urllib.request.Request(
            f"{self._url}/admin/v2/{path}",
            method=method,
            data=None if content is None else json.dumps(content).encode(),
            headers={"Content-Type": "application/json", **self._credentials()},
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT, context=self._context) as answer:
                text = answer.read()
            return json.loads(text) if text else None
        except HTTPError as why:
            raise AdminError(_said(why), why.code) from why
        except (URLError, OSError, ValueError) as why:
            raise AdminError(f"{self._url} does not answer: {getattr(why, 'reason', why)}") from why

    def partitions(self, topic: str) -> int | None:
        """0: it has none, and is one topic; None: there is no such topic."""
        tenant, namespace, _ = _parts(topic)
        path = _path(topic)
        try:
            found = int(self("GET", f"{path}/partitions?checkAllowAutoCreation=false")["partitions"])
        except AdminError as why:
            if why.status != _MISSING:
                raise
            return None
        return found if found or topic in self("GET", f"persistent/{tenant}/{namespace}") else None

    def policies(self, topic: str) -> dict[str, Any]:
        """Those of its namespace."""
        tenant, namespace, _ = _parts(topic)
        found: dict[str, Any] = self("GET", f"namespaces/{tenant}/{namespace}")
        return found

    def subscriptions(self, topic: str) -> list[str]:
        found: list[str] = self("GET", f"{_path(topic)}/subscriptions")
        return found

    def make(self, topic: str, partitions: int) -> None:
        self("PUT", f"{_path(topic)}/partitions", partitions)

    def _credentials(self) -> dict[str, str]:
        settings = self._settings
        token = settings.token.get_secret_value() if settings.token else None
        if settings.token_file is not None:
            token = Path(settings.token_file).read_text().strip()
        if token is not None:
            return {"Authorization": f"Bearer {token}"}
        if settings.username is not None and settings.password is not None:
            user = f"{settings.username}:{settings.password.get_secret_value()}"
            return {"Authorization": f"Basic {b64encode(user.encode()).decode()}"}
        return {}


def known_topics(settings: PulsarSettings, topics: Sequence[str]) -> dict[str, str]:
    """The whole names that are known beforehand, and are names, each with a topic of the relay's that goes there."""
    found = AddressTemplate(settings.topic).of_topics(topics)
    return {name: topic for name, topic in found.items() if not address_fault(name)}


def make_topics(settings: PulsarSettings, topics: Sequence[str], partitions: int) -> Iterator[tuple[str, bool]]:
    """Partitioned topics, so that they can have more partitions later. How often a message is stored is the affair of
    the namespace.
    """
    if settings.admin_url is None:
        raise SinkError(
            "sink.admin_url does not say where topics are made",
            hint="Set it, or make them: pulsar-admin topics create-partitioned-topic",
        )
    admin = PulsarAdmin(settings)
    for topic in known_topics(settings, topics):
        try:
            missing = admin.partitions(topic) is None
            if missing:
                admin.make(topic, max(1, partitions))
        except AdminError as why:
            raise SinkError(
                f"topic {topic!r} was not made: {why}", hint="pulsar-admin topics create-partitioned-topic"
            ) from why
        yield topic, missing


def _parts(topic: str) -> list[str]:
    return topic.partition("://")[2].split("/")


def _path(topic: str) -> str:
    return "/".join(["persistent", *(quote(part, safe="") for part in _parts(topic))])


def _said(why: HTTPError) -> str:
    text = why.read().decode(errors="replace")
    try:
        reason = json.loads(text).get("reason", text)
    except ValueError:
        reason = text
    return f"{why.code} {reason or why.reason}".strip()[:300]
