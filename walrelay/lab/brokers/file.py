"""A file of JSON lines as a broker."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from walrelay.lab.brokers.contract import ReadMessage
from walrelay.lab.servers.backstage import Backstage

_MOMENT = 0.002  # seconds


class LabFile:
    name, version = "a file", ""

    def __init__(self, backstage: Backstage) -> None:
        self._path = backstage.directory("file") / "events.jsonl"

    @property
    def environment(self) -> Mapping[str, str]:
        return {}

    def ready(self) -> None:
        """It is."""

    def sink(self, topic: str) -> Mapping[str, Any]:
        return {"kind": "file", "path": str(self._path)}

    @contextmanager
    def topic(self, name: str, complain: Callable[[str], None]) -> Iterator[None]:
        for path in self._path.parent.iterdir():
            path.unlink()
        yield

    def consumer(self, topic: str) -> "LinesConsumer":
        return LinesConsumer(self._path, _message)

    def held(self, topic: str) -> int:
        return count_lines(self._path)


class LinesConsumer:
    """Reads what is appended, as far as lines are whole. `read` makes a message of a line."""

    def __init__(self, path: Path, read: Callable[[Mapping[str, Any]], ReadMessage]) -> None:
        self._path, self._read, self._begun = path, read, b""
        self._place = 0

    def receive(self) -> Iterable[ReadMessage]:
        whole, separator, self._begun = (self._begun + self._more()).rpartition(b"\n")
        if not separator:
            time.sleep(_MOMENT)
        return [self._read(json.loads(line)) for line in whole.splitlines()]

    def close(self) -> None:
        """There is nothing open."""

    def _more(self) -> bytes:
        if not self._path.exists():
            return b""
        with self._path.open("rb") as file:
            file.seek(self._place)
            found = file.read()
        self._place += len(found)
        return found


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _message(line: Mapping[str, Any]) -> ReadMessage:
    return ReadMessage(dict(line["headers"])["id"], line["key"], line["value"].encode())
