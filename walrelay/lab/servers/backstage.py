"""The processes and the directory of a demo or a benchmark, which go when it goes, also when a signal ends it."""

import os
import pwd
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any, NamedTuple, Self

from walrelay.errors import Fatal
from walrelay.lab.servers.guardian import Guardian

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Raised in the main thread by the first of the signals; later ones must not disturb the tidying up."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number  # as a shell reports it


class Interruption:
    """While it is entered, a signal raises Interrupted: at once, or at the end of the block that holds it off."""

    def __init__(self) -> None:
        self._held = self._over = False
        self._waiting: int | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._asked) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """For what must be whole: a process that was started and is not written down would be left behind."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._waiting is not None:
            self._raise(self._waiting)

    def end(self) -> None:
        """From now on signals are ignored: what is going on is the tidying up that they ask for."""
        self._over = True

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self._over:
            return
        if self._held:
            self._waiting = number
            return
        self._raise(number)

    def _raise(self, number: int) -> None:
        self.end()
        raise Interrupted(number)


LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A TCP port of the loopback that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def waited(condition: Callable[[], object], patience: float, interval: float = 0.02) -> bool:
    """Whether it became true within `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval)
    return True


_LONGEST = 60  # characters: a Unix socket's path has room for little more than a hundred


class SystemUser(NamedTuple):
    """A system user without rights."""

    uid: int
    gid: int

    def identity(self) -> dict[str, Any]:
        """What subprocess needs to run a program as this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def unprivileged() -> SystemUser | None:
    """None: just as ourselves, who are not root. No user is created for this."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return SystemUser(entry.pw_uid, entry.pw_gid)
    raise Fatal(
        "PostgreSQL does not run as root, and this machine has neither a user 'postgres' nor 'nobody'",
        hint="Run this as an ordinary user.",
    )


def enterable(directory: Path) -> bool:
    """Whether any account can get to what lies in the directory."""
    return all(each.stat().st_mode & 0o001 for each in (directory, *directory.parents))


class Child:
    """A process in a session of its own: a terminal's Ctrl-C goes to its starter, which ends its children in order."""

    def __init__(self, name: str, process: subprocess.Popen[str], guardian: Guardian, log: Path) -> None:
        self._name, self._process, self._guardian, self._log = name, process, guardian, log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> IO[str]:
        """The standard output, if it was requested."""
        assert self._process.stdout is not None
        return self._process.stdout

    def log(self) -> str:
        """What it wrote to standard error, and to standard output where that was not asked for."""
        return self._log.read_text(errors="replace").strip()

    def wait(self, timeout: float | None = None) -> int:
        status = self._process.wait(timeout)
        self._guardian.forget_process(self.pid)
        return status

    def end(self, number: signal.Signals, patience: float = 5.0) -> int:
        """Returns its exit status; SIGKILL to its whole group when it does not end in time."""
        if self.running:
            self._process.send_signal(number)
            try:
                return self.wait(patience)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
        return self.wait()

    def failure(self, what: str) -> Fatal:
        """The error for a child that should not have ended."""
        last = "\n".join(self.log().splitlines()[-10:])
        return Fatal(f"{self._name} {what}" + (f":\n{last}" if last else ""))


class Backstage:
    """Starts processes and makes directories such that none can be left behind, not even by `kill -9`."""

    def __init__(self, interruption: Interruption) -> None:
        self._interruption = interruption
        self._children: list[tuple[Child, signal.Signals]] = []

    def __enter__(self) -> Self:
        with self._interruption.held_off():
            self._guardian = Guardian()
            self.home = Path(tempfile.mkdtemp(prefix="walrelay-", dir=_temporary()))
            self._guardian.watch_directory(self.home)
            self.home.chmod(0o711)  # a server with an account of its own gets to its directory below
        return self

    def __exit__(self, *_: object) -> None:
        for child, last_signal in reversed(self._children):
            child.end(last_signal)
        self._guardian.close()

    def directory(self, name: str, account: SystemUser | None = None) -> Path:
        """A private directory below home, of that account."""
        path = self.home / name
        path.mkdir(mode=0o700)
        if account is not None:
            os.chown(path, account.uid, account.gid)
        return path

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        last_signal: signal.Signals = signal.SIGKILL,
        account: SystemUser | None = None,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        output: bool = False,
    ) -> Child:
        """`last_signal` is for a child that still runs when everything ends; `output`: its stdout will be read."""
        log = self.home / f"{len(self._children)}.log"
        with log.open("wb") as file, self._interruption.held_off():
            process = subprocess.Popen(
                command,
                cwd=directory or self.home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if output else file,
                stderr=file,
                text=True,
                start_new_session=True,
                preexec_fn=lambda: self._guardian.watch_me(last_signal),
                **(account.identity() if account is not None else {}),
            )
            child = Child(name, process, self._guardian, log)
            self._children.append((child, last_signal))
        return child


@contextmanager
def opened(interruption: Interruption) -> Iterator[tuple[Backstage, ExitStack]]:
    """However it ends, nothing is left behind. What is opened goes on the stack, which closes it in reverse order."""
    with ExitStack() as stack:
        try:
            yield stack.enter_context(Backstage(interruption)), stack
        finally:
            interruption.end()


def _temporary() -> str:
    """Where temporary directories go, unless servers could not use a directory there."""
    usual = Path(tempfile.gettempdir())
    fits = len(str(usual)) <= _LONGEST and (os.geteuid() != 0 or enterable(usual))
    return str(usual) if fits else "/tmp"
