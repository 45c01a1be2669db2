"""Where a relay's position is at NATS: the last message of a subject of its own, in a stream for positions.

Each record is written only behind the one that its writer knows as the last (`Nats-Expected-Last-Subject-Sequence`). A
run that begins writes what it found once more: from then on an earlier run writes none. The record has its writer's
name: a run that connects again finds out whether the last record is still its own.
"""

import json
from base64 import b64decode
from typing import Any, NamedTuple

from nats.aio.client import Client
from nats.errors import Error

from walrelay.errors import Retryable, SinkError, Superseded
from walrelay.model import RelayPosition, System
from walrelay.sinks.nats.api import NO_MESSAGE, OTHER_LAST_SEQUENCE, STREAM_NOT_FOUND, ApiError, ask

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_PATIENCE = 5.0  # seconds for an answer


class Covered(NamedTuple):
    """A position, and the number of the stream's last message that was published before it. `owner`: the run that
    wrote it; empty: a run of an earlier version.
    """

    position: RelayPosition | None
    sequence: int
    owner: str = ""

    def as_json(self) -> bytes:
        position = None if self.position is None else json.loads(self.position.as_json())
        return json.dumps({"position": position, "sequence": self.sequence, "owner": self.owner}).encode()

    @staticmethod
    def of_json(text: bytes) -> "Covered":
        """ValueError, TypeError or LookupError for what `as_json` did not write."""
        members = json.loads(text)
        position = members["position"]
        found = None if position is None else RelayPosition.of_json(json.dumps(position).encode())
        return Covered(found, int(members["sequence"]), str(members.get("owner", "")))


class PositionSubject:
    """Of one connection of the run `owner`. ApiError, Retryable or Fatal where it cannot be used."""

    def __init__(self, client: Client, stream: str, system: System, slot: str, owner: str) -> None:
        self._client, self._stream, self._slot, self._owner = client, stream, slot, owner
        self._subject = f"{stream}.{system.identifier}.{slot}"
        self._number = 0  # of the last record

    async def take(self, nothing: Covered, replicas: int, *, again: bool) -> Covered:
        """The last record; `nothing` where there is none. No earlier run can write one any more. `again`: this run took
        it before; Superseded where another run did so since.
        """
        found = await self._read(replicas)
        if again and (found is None or found.owner != self._owner):
            raise self._superseded()
        found = found or nothing
        await self.write(found)
        return found

    async def write(self, covered: Covered) -> None:
        headers, record = {_EXPECTED: str(self._number)}, covered._replace(owner=self._owner).as_json()
        try:
            reply = await self._client.request(self._subject, record, timeout=_PATIENCE, headers=headers)
            answer: dict[str, Any] = json.loads(reply.data)
        except (Error, ValueError, TimeoutError) as why:
            raise Retryable(f"the position could not be kept in {self._stream!r}: {why or type(why).__name__}") from why
        if error := answer.get("error"):
            if error.get("err_code") == OTHER_LAST_SEQUENCE:
                raise self._superseded()
            raise Retryable(f"the position could not be kept in {self._stream!r}: {error.get('description', error)}")
        self._number = int(answer["seq"])

    def _superseded(self) -> Superseded:
        return Superseded(f"another instance publishes for slot {self._slot!r} now")

    async def _read(self, replicas: int) -> Covered | None:
        try:
            answer = await ask(self._client, f"STREAM.MSG.GET.{self._stream}", last_by_subj=self._subject)
        except ApiError as why:
            if why.code == STREAM_NOT_FOUND:
                await self._make(replicas)
            elif why.code != NO_MESSAGE:
                raise
            return None
        found = answer["message"]
        self._number = found["seq"]
        try:
            return Covered.of_json(b64decode(found["data"]))
        except (ValueError, TypeError, LookupError) as why:
            raise SinkError(
                f"the position in {self._subject!r} cannot be read: {why}",
                hint="Something else wrote to the subject. Give relays a stream of their own: sink.positions_stream;"
                " with `walrelay run --from-slot` the relay begins where the slot stands.",
            ) from why

    async def _make(self, replicas: int) -> None:
        subjects = [f"{self._stream}.>"]
        members = {"name": self._stream, "subjects": subjects, "storage": "file", "max_msgs_per_subject": 1}
        await ask(self._client, f"STREAM.CREATE.{self._stream}", num_replicas=replicas, **members)
