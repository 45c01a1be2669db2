"""A file with JSON lines."""

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.servers.topics import Received
from walrelay.publish import Sink, SinkHandle
from walrelay.sinks.file.plugin import plugin
from walrelay.sinks.file.settings import FileSettings
from walrelay.testing import Arrived


class FileCase:
    """It is always there."""

    topic = "any"

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.path = directory / f"{uuid4().hex[:12]}.jsonl"
        self.settings = FileSettings.model_validate({"path": str(self.path), **settings})
        self._handle = SinkHandle("file", self.settings, plugin)

    def open(self, *, room: int = 10_000) -> Sink:
        return self._handle.open()

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass

    def arrived(self) -> list[Arrived]:
        """The file must end with a whole line."""
        assert not self.path.exists() or self.path.read_bytes()[-1:] in (b"\n", b"")
        return [Arrived(got.key, got.value, got.headers) for got in received(self.path)]

    def close(self) -> None:
        pass


class FileOfLines:
    """Nothing there can be killed."""

    topic = "events"

    def __init__(self, directory: Path) -> None:
        self.path = directory / f"{uuid4().hex[:12]}.jsonl"

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "file", "path": str(self.path)}

    def read_all(self, *topics: str) -> list[Received]:
        return [*received(self.path)]

    def kill(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        pass


def received(path: Path) -> Iterator[Received]:
    """Every message in it, each key as a partition of its own. The last line may be on its way."""
    keys: dict[bytes | None, int] = {}
    text = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(text[: text.rfind(b"\n") + 1].splitlines()):
        members = json.loads(line)
        key = _bytes(members["key"])
        headers = [(name, _bytes(value)) for name, value in members["headers"]]
        yield Received(
            members["topic"],
            keys.setdefault(key, len(keys)),
            number,
            key,
            _bytes(members["value"]),
            headers,
            members["timestamp_ms"],
        )


def _bytes(text: str | dict[str, str] | None) -> bytes | None:
    if isinstance(text, dict):
        return b64decode(text["base64"])
    return None if text is None else text.encode()
