"""What a frame holds, for people: names and values as they stand there, whatever they were to mean."""

from walrelay.errors import ProtocolError
from walrelay.wire import pgoutput
from walrelay.wire.frames import BODY

Column = tuple[str, bytes | None]


class RawRows:
    """Fed with all frames of a stream, it can name the columns of a row; else the row is one column, its frame."""

    def __init__(self, plugin: str) -> None:
        self._pgoutput = plugin == "pgoutput"
        self._relations: dict[int, pgoutput.Relation] = {}

    def learn(self, frame: bytes) -> None:
        """To be called with every frame, before `columns`."""
        if self._pgoutput and frame[:1] == b"w" and frame[BODY : BODY + 1] == b"R":
            relation = pgoutput.parse_relation(frame)
            self._relations[relation.oid] = relation

    def columns(self, frame: bytes) -> list[Column]:
        """Never an error: what cannot be taken apart is shown whole."""
        body = frame[BODY:]
        try:
            if self._pgoutput and body[:1] == b"I":
                return self._row(frame)
            if self._pgoutput and body[:1] == b"M":
                return [("content", pgoutput.parse_message(frame).content)]
        except (ProtocolError, KeyError):
            pass
        return [("frame", body)]

    def _row(self, frame: bytes) -> list[Column]:
        oid, count = pgoutput.parse_insert(frame)
        names = [column.name for column in self._relations[oid].columns]
        return list(zip(names, pgoutput.parse_row(frame, [bytes] * count), strict=False))
