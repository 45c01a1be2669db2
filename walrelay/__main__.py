"""The process: `walrelay`, and `python -m walrelay`. What must hold before anything else of walrelay is imported."""

import gc
import os
import signal
import sys
from typing import Any

_INTERRUPTED = 130  # as a shell reports SIGINT


def main() -> None:
    """The command line. Ctrl-C during the imports, which take a moment, is one line like any other Ctrl-C.

    A relay that is asked to stop before it began has nothing open. As a container's first process it would not even
    hear a SIGTERM that it has no handler for.
    """
    if sys.argv[1:2] == ["run"]:
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))  # until `run` has a handler of its own
    _open_standard_streams()
    gc.disable()  # while modules are imported, whose objects stay: `walrelay.cli` turns it on again
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # pydantic looks for them in every installed package
    try:
        from walrelay.cli import main as command_line
    except KeyboardInterrupt:
        os.write(2, b"interrupted\n")
        os._exit(_INTERRUPTED)
    command_line()


def _open_standard_streams() -> None:
    """A closed descriptor (`>&-`) would be given to the first connection, and what is printed would go to the broker.

    Output to a closed stdout has to fail, so it is opened for reading; messages to a closed stderr need no reader.
    """
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # the lowest free number is this one: those below are open by now
    sys.stdin = sys.stdin or _stream(0, "r")
    sys.stdout = sys.stdout or _stream(1, "w")
    sys.stderr = sys.stderr or _stream(2, "w")


def _stream(descriptor: int, mode: str) -> Any:
    return open(descriptor, mode, encoding="utf-8", closefd=False)


if __name__ == "__main__":
    main()
