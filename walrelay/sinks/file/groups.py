"""Lines in a file, exactly once: the journal has the lines of a group and its position, before the file has them."""

from collections.abc import Callable, Sequence

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import Message, RelayPosition
from walrelay.sinks.file.line_file import InUse, JournalEntry, LineFile
from walrelay.sinks.file.sink import Patience
from walrelay.sinks.groups import Culprit
from walrelay.sinks.hosting.sink import Misfit
from walrelay.sinks.stdout import line


class FileGroups:
    """Implements `walrelay.sinks.groups.GroupStore`. A lock on the file is the fence."""

    def __init__(self, open_file: Callable[[], LineFile], slot: str) -> None:
        self._open_file, self._slot = open_file, slot
        self._file: LineFile | None = None
        self._lines = b""
        self._position: RelayPosition | None = None  # of the group that is being written
        self._entry: JournalEntry | None = None  # of it, once the journal has it
        self._patience = Patience()
        self._in_use = ""

    def fence(self, timeout: float) -> bool:
        try:
            self._in_use = ""
            if self._file is not None:  # again
                self._file.close()
            return self._patience.done(self.open, 0.2)
        except InUse as why:
            self._in_use = str(why)
            return False

    def open(self) -> None:
        """InUse, NoSpace or Fatal where that does not work."""
        self._file = file = self._open_file()
        if file.journal is not None and file.journal.position.slot != self._slot:
            file.close()
            raise Fatal(
                f"{file.journal_path} is of slot {file.journal.position.slot!r}, not of {self._slot!r}",
                hint="Give each relay a file of its own: sink.path.",
            )

    def last(self) -> RelayPosition | None:
        entry = self._opened.journal
        return None if entry is None else entry.position

    def misfit(self, message: Message) -> Misfit | None:
        return None  # a line holds anything

    def begin(self, messages: Sequence[Message], position: RelayPosition) -> None:
        self._lines = b"".join([line(message) for message in messages])
        self._position, self._entry = position, None

    def step(self, timeout: float) -> bool | Culprit:
        if self._position is None or not self._patience.done(self._write, timeout):
            return False
        self._position = None
        return True

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return self._patience.trouble or self._in_use

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def _opened(self) -> LineFile:
        assert self._file is not None, "not fenced"
        return self._file

    def _write(self) -> None:
        file = self._opened
        assert self._position is not None
        if self._entry is None:
            if self._lines:
                file.make_ready(len(self._lines))
            entry = JournalEntry(self._position, file.inode, file.size, self._lines)
            file.keep(entry)
            self._entry = entry
        if self._lines:
            file.write(self._lines, self._entry.offset)
            file.note_written()


class FilePositionRecord:
    """Implements `walrelay.publish.contract.PositionKeeper` for commands that move a slot. The file is only open
    meanwhile.
    """

    def __init__(self, open_file: Callable[[], LineFile], slot: str) -> None:
        self._open_file, self._slot = open_file, slot

    def fence(self) -> bool:
        return True  # whoever has the file open has it alone

    def trouble(self) -> str:
        return ""

    def last(self) -> RelayPosition | None:
        groups = self._fenced()
        try:
            return groups.last()
        finally:
            groups.close()

    def keep(self, position: RelayPosition) -> LSN:
        groups = self._fenced()
        try:
            groups.begin((), position)
            return position.lsn if groups.step(1.0) else LSN(0)
        finally:
            groups.close()

    def _fenced(self) -> FileGroups:
        groups = FileGroups(self._open_file, self._slot)
        groups.open()
        return groups
