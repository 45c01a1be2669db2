"""Damaged valid messages: whatever breaks, it is one of the two errors that say so, and never another."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden.capture_wal2json import OUTBOXES, SERVERS, read_capture
from walrelay.decode.wal2json import Wal2jsonDecoder
from walrelay.errors import ProtocolError, Undecodable
from walrelay.wire.frames import BODY

FRAMES = {
    (case, version): read_capture(SERVERS[0], case, f"format{version}") for case in OUTBOXES for version in (1, 2)
}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["\ud800", "0/1", "I"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def decode_all(case: str, version: int, frames: list[bytes]) -> None:
    decoder = Wal2jsonDecoder(OUTBOXES[case], version)
    with contextlib.suppress(ProtocolError, Undecodable):
        for frame in frames:
            list(decoder.decode(frame))


def damaged_bytes(data: st.DataObject, frame: bytes) -> bytes:
    at = data.draw(st.integers(0, len(frame)))
    length = data.draw(st.integers(0, 3))
    return frame[:at] + data.draw(st.binary(max_size=3)) + frame[at + length :]


def truncated(data: st.DataObject, frame: bytes) -> bytes:
    return frame[: data.draw(st.integers(0, len(frame)))]


def damaged_json(data: st.DataObject, frame: bytes) -> bytes:
    """One value somewhere in the message is dropped, doubled or replaced, so that it stays JSON."""
    if len(frame) <= BODY:
        return frame
    message = json.loads(str(frame[BODY:], "utf-8", "surrogateescape").replace("[,", "["))
    places = list(_places(message))
    container, key = data.draw(st.sampled_from(places))
    match data.draw(st.sampled_from(["drop", "double", "replace"])):
        case "drop":
            del container[key]
        case "double" if isinstance(container, list):
            container.append(container[key])
        case _:
            container[key] = data.draw(anything)
    return frame[:BODY] + json.dumps(message).encode()


def _places(value: Any) -> Any:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


DAMAGES: list[Callable[[st.DataObject, bytes], bytes]] = [damaged_bytes, truncated, damaged_json]


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(sorted(FRAMES)), st.sampled_from(DAMAGES))
def test_damage_is_a_protocol_error_or_undecodable_and_nothing_else(
    data: st.DataObject, capture: tuple[str, int], damage: Callable[[st.DataObject, bytes], bytes]
) -> None:
    frames = list(FRAMES[capture])
    which = data.draw(st.integers(0, len(frames) - 1))
    frames[which] = damage(data, frames[which])
    decode_all(*capture, frames)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(sorted(FRAMES)))
def test_frames_lost_repeated_or_swapped_are_no_other_error(data: st.DataObject, capture: tuple[str, int]) -> None:
    decode_all(*capture, data.draw(st.lists(st.sampled_from(FRAMES[capture]), max_size=20)))
