"""Where the client's threads leave what they say, for the thread of the relay."""

import os
import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Mailbox:
    """Its callbacks may be called by any thread; its methods are the relay's. Whoever waits is woken by a byte in a
    pipe, and only the first thing that is said after the last `take` writes one.
    """

    def __init__(self, fine: Any) -> None:
        """`fine`: the result of what succeeds."""
        self._fine = fine
        self._said: deque[tuple[Any, Any]] = deque()
        self._awake = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self.complained = False
        """Whether something failed that was not taken yet."""

    def __del__(self) -> None:
        """Only now can no callback be on its way any more."""
        os.close(self._reader)
        os.close(self._writer)

    @property
    def descriptor(self) -> int:
        """Readable when there is something to take."""
        return self._reader

    def callback(self, about: Any) -> Callable[[Any, Any], None]:
        """Of a call whose result is said with `about`."""
        fine, said = self._fine, self._said.append

        def answered(result: Any, _: Any) -> None:
            said((about, result))
            if result != fine:
                self.complained = True
            if not self._awake:
                self._wake()

        return answered

    def made(self, about: Any) -> Callable[[Any], None]:
        """Of a call that makes something, or says why it cannot."""

        def answered(made: Any) -> None:
            self._said.append((about, made))
            self._wake()

        return answered

    def wait(self, timeout: float) -> None:
        """Until there is something to take, or for so many seconds."""
        if not self._said and timeout > 0:
            poll = select.poll()
            poll.register(self._reader, select.POLLIN)
            poll.poll(timeout * 1000)

    def take(self) -> list[tuple[Any, Any]]:
        """(about, what was said), in the order in which it was."""
        if self._awake:
            with suppress(BlockingIOError):
                os.read(self._reader, 4096)
            self._awake = False
        self.complained = False
        taken = []
        while self._said:
            taken.append(self._said.popleft())
        return taken

    def _wake(self) -> None:
        self._awake = True
        with suppress(BlockingIOError):
            os.write(self._writer, b".")
