"""How a command ends: by a signal, or by an error as a message and an exit code. The one place for both.

    0    done
    1    it failed, or found what it looks for (doctor: a problem, audit: a fault), or the answer to its question was no
    2    the command line or the settings file cannot be used; nothing was done
    130  Ctrl-C

An unforeseen error is a bug in walrelay: the message asks to report it, and TRACEBACK shows where it was raised.
"""

import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click

from walrelay.cli import streams
from walrelay.errors import SettingsError
from walrelay.unforeseen import TRACEBACK, explained

if TYPE_CHECKING:
    from walrelay.supervise import Stop

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def exit_code(command: Callable[[], Any]) -> int:
    """Runs the command, prints an error to stderr, and returns the exit code; `command` returns its own, or None.

    Leaves no unwritten output for the interpreter, which would fail on it at its end.
    """
    try:
        code = command()
        return code if isinstance(code, int) else DONE
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except click.Abort as error:
        interrupted = isinstance(error.__cause__, KeyboardInterrupt)
        _say("interrupted" if interrupted else "stopped: nobody said yes")
        return INTERRUPTED if interrupted else FAILED
    except Exception as error:
        return report(error)
    finally:
        streams.abandon()


def show_traceback(error: BaseException) -> None:
    """Prints it to stderr if the environment variable is set."""
    if os.environ.get(TRACEBACK):
        _say("".join(traceback.format_exception(error)))


def report(error: Exception, of: str = "") -> int:
    """Prints the error to stderr and returns its exit code. `of`: what it is about, to be printed before it."""
    known = explained(error)
    show_traceback(error)
    # Errors of the settings begin with file and line, which editors can follow.
    _say(str(known) if isinstance(known, SettingsError) else f"error: {of}{known}", fg="red")
    if known.hint:
        _say(f"hint: {known.hint}")
    return USAGE if isinstance(known, SettingsError) else FAILED


def _say(text: str, fg: str | None = None) -> None:
    with suppress(OSError, ValueError):
        click.secho(text, fg=fg, err=True)


_ASKING = (signal.SIGTERM, signal.SIGINT)
BY_SIGNAL = 128  # a shell's exit status is this plus the signal's number


def signalled(leaving: Callable[[], None] = lambda: None) -> "Stop":
    """An event that the first SIGTERM or SIGINT sets. The second one, of either kind, ends the process after `leaving`.

    A thread reads the signals: the main one may be in a client library, where no Python handler runs, or in stop.wait,
    where it holds the lock.
    """
    from walrelay.supervise import Stop  # the list of commands does not need it

    stop = Stop()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in _ASKING:
        signal.signal(number, lambda number, frame: None)  # without one nothing is written to the descriptor
    Thread(target=_listen, args=(reading, stop, leaving), name="signals", daemon=True).start()
    return stop


def _listen(reading: int, stop: Event, leaving: Callable[[], None]) -> None:
    """Counts the signals: something else may have set `stop` before."""
    asked = 0
    while asked < 2:
        number = os.read(reading, 1)[0]
        if number in _ASKING:
            asked += 1
            stop.set()
    try:
        leaving()
    finally:
        os._exit(BY_SIGNAL + number)
