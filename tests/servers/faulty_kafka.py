"""Kafka's protocol with a fault at one call: the n-th request is lost, or answered with an error, nonsense or nothing.

A response is the broker's own, with an error written into it where its API has one, as far as that is known here (see
`_place`). What was asked for was done then, but for a Produce: that is damaged on its way, so that nothing is written.
"""

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

from tests.servers import choose
from tests.servers.kafka import KafkaServer
from tests.servers.ports import LOOPBACK

LOST, UNHEARD, GARBLED = "lost", "unheard", "garbled"
"""The connection is reset: before the broker has the request, or when it has answered. And: the answer is nonsense."""

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
CREATE_TOPICS, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TRANSACTION, DESCRIBE_CONFIGS = 19, 22, 24, 26, 32
_FLEXIBLE_FROM = {
    PRODUCE: 9, FETCH: 12, LIST_OFFSETS: 6, METADATA: 9, FIND_COORDINATOR: 3, CREATE_TOPICS: 5, INIT_PRODUCER_ID: 2,
    ADD_PARTITIONS: 3, END_TRANSACTION: 3, DESCRIBE_CONFIGS: 4,
}  # fmt: skip
"""From which version on lengths are varints and responses have tagged fields."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class BrokerFault(NamedTuple):
    """`call`: which request (from 1 on) of all connections together meets it; with `lasting` all after it too.
    `kind`: one of the above, or Kafka's number of an error.
    """

    call: int
    kind: str | int = LOST
    lasting: bool = False

    def hits(self, call: int) -> bool:
        return call == self.call or (self.lasting and call > self.call)


class _Asked(NamedTuple):
    api: int
    version: int
    kind: str | int


class FaultyKafka:
    """Listens at `address` in front of the broker at `target`, until close()."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address = f"{LOOPBACK}:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._fault = BrokerFault(0)
        self.calls = 0
        self.apis: list[int] = []
        """What was asked, by the numbers of the APIs."""
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, name="faulty broker", daemon=True).start()

    def arm(self, fault: BrokerFault) -> None:
        """From now on requests are counted from zero, and one meets this fault."""
        with self._lock:
            self._fault, self.calls = fault, 0
            self.apis.clear()

    def heal(self) -> None:
        """From now on none does."""
        with self._lock:
            self._fault = BrokerFault(0)

    def close(self) -> None:
        with self._lock:
            sockets = [*self._sockets]
        for each in (self._listener, *sockets):
            _shut(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), name="faulty link", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection(self._target)
        except OSError:
            _reset(client)
            return
        with self._lock:
            self._sockets |= {client, broker}
        asked: dict[int, _Asked] = {}
        back = threading.Thread(target=self._back, args=(broker, client, asked), name="faulty answers", daemon=True)
        back.start()
        try:
            self._forth(client, broker, asked)
        except (OSError, EOFError):
            pass
        finally:
            _reset(client)
            _shut(broker)
            with self._lock:
                self._sockets -= {client, broker}

    def _forth(self, client: socket.socket, broker: socket.socket, asked: dict[int, _Asked]) -> None:
        while True:
            frame = _frame(client)
            api, version, correlation = struct.unpack(">hhi", frame[:8])
            with self._lock:
                self.calls += 1
                self.apis.append(api)
                kind = self._fault.kind if self._fault.hits(self.calls) else None
            if kind == LOST:
                return
            if kind is not None:
                asked[correlation] = _Asked(api, version, kind)
                if api == PRODUCE and isinstance(kind, int):
                    frame = (
                        frame[:-8] + bytes([frame[-8] ^ 0xFF]) + frame[-7:]
                    )  # in the batch: its checksum is wrong now
            broker.sendall(struct.pack(">i", len(frame)) + frame)

    def _back(self, broker: socket.socket, client: socket.socket, asked: Mapping[int, _Asked]) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                frame = _frame(broker)
                meant = asked.get(struct.unpack(">i", frame[:4])[0])
                if meant is not None:
                    if meant.kind == UNHEARD:
                        break
                    frame = _garbled(frame) if meant.kind == GARBLED else _failed(frame, meant)
                client.sendall(struct.pack(">i", len(frame)) + frame)
        _shut(client)
        _shut(broker)


@contextlib.contextmanager
def faulty_broker(machine: choose.Machine) -> Iterator[tuple[KafkaServer, FaultyKafka]]:
    """A broker that every client reaches through the other."""
    jars = choose.found(lambda: choose.kafka_jars(machine))
    listeners: list[FaultyKafka] = []

    def through(target: tuple[str, int]) -> FaultyKafka:
        listeners.append(FaultyKafka(target))
        return listeners[0]

    with KafkaServer(jars, through=through) as kafka:
        yield kafka, listeners[0]
        listeners[0].close()


def _garbled(frame: bytes) -> bytes:
    noise = random.Random(len(frame))
    return frame[:4] + noise.randbytes(noise.randrange(len(frame)))


def _failed(frame: bytes, asked: _Asked) -> bytes:
    """The response with the error in it; as it is where this module does not know the place, or it has none."""
    place = _place(frame, asked.api, asked.version)
    if place is None:
        return frame
    assert isinstance(asked.kind, int)
    return frame[:place] + struct.pack(">h", asked.kind) + frame[place + 2 :]


def _place(frame: bytes, api: int, version: int) -> int | None:
    """Where the (first) error code of a response stands."""
    if api == API_VERSIONS:
        return 4
    if api not in _FLEXIBLE_FROM:
        return None
    read = _Reader(frame, flexible=version >= _FLEXIBLE_FROM[api])
    if api == PRODUCE:
        return read.of_partition()
    read.skip(4)  # throttle_time_ms
    match api:
        case _ if api in (LIST_OFFSETS, ADD_PARTITIONS):
            if api == ADD_PARTITIONS and version >= 4:
                return None
            return read.of_partition()
        case _ if api == METADATA:
            for _ in range(read.length("i")):  # brokers
                read.skip(4)
                read.text()
                read.skip(4)
                read.text()
                read.tags()
            read.text()  # the cluster's id
            read.skip(4)  # the controller
            return read.at if read.length("i") > 0 else None
        case _ if api == CREATE_TOPICS:
            if read.length("i") < 1:
                return None
            read.text()
            if version >= 7:
                read.skip(16)  # the topic's id
        case _ if api == DESCRIBE_CONFIGS or (api == FIND_COORDINATOR and version >= 4):
            if read.length("i") < 1:
                return None
            if api == FIND_COORDINATOR:
                read.text()
                read.skip(4)
                read.text()
                read.skip(4)
    return read.at


class _Reader:
    """Goes through a response, from behind its header."""

    def __init__(self, frame: bytes, *, flexible: bool) -> None:
        self._frame, self._flexible, self.at = frame, flexible, 4
        self.tags()

    def skip(self, count: int) -> None:
        self.at += count

    def length(self, plain: str) -> int:
        """Of an array or a text; -1 is null."""
        if not self._flexible:
            size = struct.calcsize(f">{plain}")
            (length,) = struct.unpack(f">{plain}", self._frame[self.at : self.at + size])
            self.skip(size)
            return int(length)
        return self._varint() - 1

    def text(self) -> None:
        self.skip(max(0, self.length("h")))

    def tags(self) -> None:
        if self._flexible:
            for _ in range(self._varint()):
                self._varint()
                self.skip(self._varint())

    def of_partition(self) -> int | None:
        """Of the first partition of the first topic."""
        if self.length("i") < 1:
            return None
        self.text()
        if self.length("i") < 1:
            return None
        self.skip(4)
        return self.at

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._frame[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


def _frame(source: socket.socket) -> bytes:
    return _exactly(source, struct.unpack(">i", _exactly(source, 4))[0])


def _exactly(source: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        if not (more := source.recv(count - len(data))):
            raise EOFError
        data += more
    return bytes(data)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    _shut(end, how=None)


def _shut(end: socket.socket, how: int | None = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):
        if how is not None:
            end.shutdown(how)
    end.close()
