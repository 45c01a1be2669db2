"""pgoutput's decoder on any valid stream, and on valid streams that were damaged on their way.

Random bytes do not find what damaged valid messages find: the damage here is one cut, one flipped byte, one frame
lost, doubled or moved, in a stream that was right.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import pgoutput_encoder as server
from tests.golden.capture_pgoutput import CAPTURES, decoder_for, read_capture
from walrelay.decode.contract import Columns, OutboxLayout
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.errors import ProtocolError, Undecodable
from walrelay.lsn import LSN
from walrelay.model import Committed, Event, Idle, OutboxRecord
from walrelay.wire import pgoutput
from walrelay.wire.frames import keepalive, xlogdata

COLUMNS = Columns(**dict.fromkeys(Columns._fields))._replace(id="id", aggregate_id="key", payload="payload")
OUTBOX = OutboxLayout(prefix="walrelay", columns=COLUMNS)
OURS, FOREIGN = 16400, 16401
RELATION = server.relation(OURS, "public", "outbox", [("payload", 3802), ("extra", 25), ("id", 25), ("key", 25)])
OTHER = server.relation(FOREIGN, "public", "other", [("id", 25)])

value = st.none() | st.binary(max_size=40)


class Row(NamedTuple):
    id: bytes
    key: bytes | None
    payload: bytes | None


class Transaction(NamedTuple):
    rows: list[Row | None]  # None: a row of another table
    chatter: bool  # keepalives between all frames


rows = st.builds(Row, st.binary(max_size=8), value, value)
transactions = st.builds(Transaction, st.lists(rows | st.none(), max_size=5), st.booleans())
streams = st.lists(transactions, max_size=5)


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")


def encoded(stream: list[Transaction]) -> tuple[list[bytes], list[Event]]:
    """The frames of `stream`, and the events that they mean."""
    frames: list[bytes] = []
    events: list[Event] = []
    position = LSN(1_000)
    for transaction in stream:
        end = LSN(position + 56)
        bodies = [server.begin(position), RELATION, OTHER]
        ours = [row for row in transaction.rows if row]
        for row in transaction.rows:
            values = [row.payload, b"extra", row.id, row.key] if row else [b"1"]
            bodies.append(server.insert(OURS if row else FOREIGN, values))
        bodies.append(server.commit(position, end))
        for body in bodies:
            frames.append(xlogdata(position, position, body))
            if transaction.chatter and body is not bodies[-1]:
                frames.append(keepalive(end))
        for ordinal, row in enumerate(ours):
            fields = Columns(**dict.fromkeys(Columns._fields))._replace(id=text(row.id), aggregate_id=text(row.key))
            record = OutboxRecord(position, ordinal, server.POSTGRES_EPOCH_US, *fields)  # type: ignore[arg-type]
            events.append(record._replace(payload=row.payload))
        events.append(Committed(end) if ours else Idle(end))
        position = end
    return frames, events


def decoded(decoder: PgoutputDecoder, frames: list[bytes]) -> list[Event]:
    return [event for frame in frames for event in decoder.decode(frame)]


def decoded_up_to_the_damage(decoder: PgoutputDecoder, frames: list[bytes]) -> list[Event]:
    """The events before the first error, which has to be one of the two that say what happened."""
    events: list[Event] = []
    with suppress(ProtocolError, Undecodable):
        for frame in frames:
            events.extend(decoder.decode(frame))
    return events


@given(streams)
def test_any_stream_means_what_was_written(stream: list[Transaction]) -> None:
    frames, events = encoded(stream)
    assert decoded(PgoutputDecoder(OUTBOX), frames) == events


@given(st.lists(value, max_size=20), st.sampled_from([b"t", b"b"]))
def test_any_row_comes_back_as_it_was(values: list[bytes | None], kind: bytes) -> None:
    assert pgoutput.parse_row(xlogdata(0, 0, server.insert(1, values, kind=kind)), [bytes] * len(values)) == values


@given(streams.filter(bool), st.data())
def test_a_lost_frame_puts_no_record_and_no_end_where_it_was_not(
    stream: list[Transaction], data: st.DataObject
) -> None:
    frames, events = encoded(stream)
    lost = data.draw(st.integers(0, len(frames) - 1))
    found = decoded_up_to_the_damage(PgoutputDecoder(OUTBOX), frames[:lost] + frames[lost + 1 :])
    assert set(map(whereabouts, found)) <= set(map(whereabouts, events))


def whereabouts(event: Event) -> object:
    """A record but for its number, an end but for whether it had records: what a lost row may change."""
    match event:
        case OutboxRecord():
            return event._replace(ordinal=0)
        case Committed(lsn) | Idle(lsn):
            return lsn
    return event


Damage = Callable[[st.DataObject, bytes], bytes]


def cut(data: st.DataObject, frame: bytes) -> bytes:
    return frame[: data.draw(st.integers(0, len(frame) - 1))]


def extended(data: st.DataObject, frame: bytes) -> bytes:
    return frame + data.draw(st.binary(min_size=1, max_size=9))


def flipped(data: st.DataObject, frame: bytes) -> bytes:
    at = data.draw(st.integers(0, len(frame) - 1))
    return frame[:at] + bytes([frame[at] ^ data.draw(st.integers(1, 255))]) + frame[at + 1 :]


def spliced(data: st.DataObject, frame: bytes) -> bytes:
    at, to = sorted(data.draw(st.integers(0, len(frame))) for _ in range(2))
    return frame[:at] + data.draw(st.binary(max_size=9)) + frame[to:]


DAMAGES: list[Damage] = [cut, extended, flipped, spliced]


@settings(max_examples=400)
@given(streams.filter(bool), st.sampled_from(DAMAGES), st.data())
def test_a_damaged_frame_is_a_protocol_error_or_undecodable_and_no_other(
    stream: list[Transaction], damage: Damage, data: st.DataObject
) -> None:
    frames, _ = encoded(stream)
    which = data.draw(st.integers(0, len(frames) - 1))
    frames[which] = damage(data, frames[which])
    decoded_up_to_the_damage(PgoutputDecoder(OUTBOX), frames)


@settings(max_examples=200)
@given(st.data())
def test_frames_in_any_order_and_number_are_no_other_error(data: st.DataObject) -> None:
    frames, _ = encoded([Transaction([Row(b"1", None, b"{}"), None], chatter=True)] * 2)
    decoded_up_to_the_damage(PgoutputDecoder(OUTBOX), data.draw(st.lists(st.sampled_from(frames), max_size=20)))


@settings(max_examples=300)
@given(st.sampled_from(CAPTURES), st.sampled_from(DAMAGES), st.data())
def test_damage_to_what_a_real_server_sent_is_no_other_error(name: str, damage: Damage, data: st.DataObject) -> None:
    frames = list(read_capture(name))
    which = data.draw(st.integers(0, len(frames) - 1))
    frames[which] = damage(data, frames[which])
    decoded_up_to_the_damage(decoder_for(name), frames)
