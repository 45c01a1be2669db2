"""A process that has the product's modules in memory and forks for each command: a start takes a hundredth of a second.

It reads requests as lines of JSON, and answers each with a line: {"start": [words], "output": PATH} with the pid,
{"wait": PID, "seconds": S} with the exit status, or null where it runs on.
"""

import json
import os
import pkgutil
import sys
from contextlib import suppress
from importlib import import_module
from time import monotonic, sleep
from typing import Any

_HEAVY = ("walrelay.lab", "walrelay.sinks")


def warm(needed: tuple[str, ...]) -> None:
    """Imports what a command would: all of the package but laboratories and the clients of brokers."""
    import walrelay

    for module in pkgutil.walk_packages(walrelay.__path__, "walrelay."):
        if not module.name.startswith(_HEAVY) and not module.name.endswith("__main__"):
            with suppress(Exception):
                import_module(module.name)
    for name in needed:
        import_module(name)


def start(words: list[str], output: str) -> int:
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        os.setsid()
        log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        sys.argv = ["walrelay", *words]
        from walrelay.__main__ import main

        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def wait(pid: int, seconds: float) -> int | None:
    """The exit status, negative for a signal; None while it runs."""
    end = monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if monotonic() >= end:
            return None
        sleep(0.002)


def say(answer: int | None) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def serve() -> None:
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        if "start" in request:
            answer: int | None = start(request["start"], request["output"])
        else:
            answer = wait(request["wait"], request["seconds"])
        say(answer)


if __name__ == "__main__":
    warm(tuple(sys.argv[1:]))
    say(None)
    serve()
