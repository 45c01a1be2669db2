"""Any error in walrelay's words; one that nobody foresaw is a bug, and says where it was raised."""

import traceback
from pathlib import Path

from walrelay.errors import Fatal, WalrelayError

TRACEBACK = "WALRELAY_TRACEBACK"
"""The environment variable that shows tracebacks."""


class Bug(Fatal):
    """An unforeseen error."""

    page = "bug"


def explained(error: Exception) -> WalrelayError:
    """The error in walrelay's words."""
    match error:
        case WalrelayError():
            return error
        case OSError() if error.strerror:
            return Fatal(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
        case MemoryError():
            return Fatal("there is not enough memory")
    from walrelay.postgres.failures import unexpected  # imports psycopg, which `--help` does not need

    if (known := unexpected(error)) is not None:
        return known
    return Bug(
        f"this is a bug in walrelay: {_summary(error)}",
        hint=f"Please report it, with the command and its output when {TRACEBACK}=1 is set."
        " Nothing that may not have been published was confirmed.",
    )


def _summary(error: Exception) -> str:
    """Class and text, and where in walrelay it was raised."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    package = str(Path(__file__).parent)
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(package)]
    return f"{text} ({Path(ours[-1].filename).relative_to(package)}, line {ours[-1].lineno})" if ours else text
