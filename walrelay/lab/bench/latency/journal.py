"""A file to which one process appends while another reads: the one never waits for the other."""

import json
from pathlib import Path
from typing import Any


class Journal:
    """The reading end; the file is there from now on. A line is a JSON array."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch(mode=0o600)
        self._file = path.open("rb")
        self._begun = b""

    def new(self) -> list[list[Any]]:
        """What was appended since this was last asked, as far as lines are complete."""
        *lines, self._begun = (self._begun + self._file.read()).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        self._file.close()
