"""A terminal that is drawn on as a whole, and its keys. It is as before when the context is left."""

import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from time import monotonic
from typing import Any, Self

from walrelay.cli.ending import signalled

_ENTER = "\x1b[?1049h\x1b[?25l"  # the alternate screen, no cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _TO_END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_ARROWS = {b"\x1b[A": "k", b"\x1b[B": "j", b"\x1bOA": "k", b"\x1bOB": "j"}


class Terminal:
    """Reads keys and draws frames."""

    def __init__(self) -> None:
        self.stop = signalled()
        self._descriptor = sys.stdin.fileno()
        self._before: list[Any] = []
        self._resized, self._writing = os.pipe()

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._descriptor)
        for end in (self._resized, self._writing):
            os.set_blocking(end, False)
        self._former = signal.signal(signal.SIGWINCH, lambda *_: os.write(self._writing, b"w"))
        tty.setcbreak(self._descriptor)
        self._write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_LEAVE)
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)
        signal.signal(signal.SIGWINCH, self._former)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        found = shutil.get_terminal_size()
        return found.columns, found.lines

    def draw(self, lines: Sequence[str]) -> None:
        """In one piece, over the last frame: nothing flickers."""
        frame = "\n".join(f"{line}{_TO_END_OF_LINE}" for line in lines[: self.size[1]])
        self._write(f"{_HOME}{frame}{_BELOW}")

    def keys(self, until: float) -> list[str]:
        """Those that were pressed by then (`monotonic`); returns early with some, and when the size changes."""
        ready, _, _ = select.select(
            [self._descriptor, self._resized, self.stop.fileno()], [], [], max(0.0, until - monotonic())
        )
        if self._resized in ready:
            os.read(self._resized, 4096)
        if self._descriptor not in ready:
            return []
        pressed = os.read(self._descriptor, 64)
        for sequence, key in _ARROWS.items():
            pressed = pressed.replace(sequence, key.encode())
        return list(pressed.decode(errors="replace")) if pressed else ["q"]  # the terminal is gone

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
