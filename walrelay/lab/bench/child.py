"""How a process of the benchmark ends: what went wrong is a line on stderr, which its parent tells."""

import os
import sys
from collections.abc import Callable
from typing import Any


def run(main: Callable[..., Any], *arguments: Any) -> None:
    """`WALRELAY_TRACEBACK=1` shows where it was, as for a command."""
    try:
        main(*arguments)
    except Exception as error:
        if os.environ.get("WALRELAY_TRACEBACK"):
            raise
        sys.exit(_words(error))


def _words(error: Exception) -> str:
    about = error.args[0] if error.args else None
    if callable(text := getattr(about, "str", None)):  # a KafkaError, whose own text is for programmers
        return str(text())
    return f"{type(error).__name__}: {error}"
