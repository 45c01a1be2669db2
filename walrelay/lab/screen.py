"""What a person sees of a demo or a benchmark while it gets ready: steps and notes, on a terminal and elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


class Screen:
    """Where all of it is shown; nothing goes to any other place."""

    def __init__(self, *, on_stderr: bool = False) -> None:
        self.console = Console(stderr=on_stderr)
        self._mark = "✓" if self.console.encoding.startswith("utf") else "*"

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False)

    def note(self, text: str) -> None:
        self.say(f" [yellow]![/] {text}")

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Shown as going on, and then as there."""
        started = time.monotonic()
        with self.console.status(what):
            yield
        self.say(f" [green]{self._mark}[/] {what}  [dim]{time.monotonic() - started:.1f} s[/]")
