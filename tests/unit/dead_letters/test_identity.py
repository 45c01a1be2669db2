"""Which dead letter is a message's: by destination, then by key, then by order."""

import pytest

from walrelay.dead_letter import DeadLetter, Origin
from walrelay.dead_letters.identity import letters_of_messages, stored_id
from walrelay.lsn import LSN
from walrelay.model import Message


def letter(topic: str | None, number: int = 0, key: bytes | None = b"k") -> DeadLetter:
    return DeadLetter(Origin(LSN(1), 0, number, "e"), "waiting", "poison", "why", topic, key)


def message(topic: str, key: bytes | None = b"k") -> Message:
    return Message(topic, key, b"", [], 0)


def found(letters: list[DeadLetter], *messages: Message) -> list[int | None]:
    """The places of the letters that the messages have."""
    return [None if each is None else letters.index(each) for each in letters_of_messages(letters, messages)]


def test_a_letter_is_about_its_destination_wherever_its_message_stands() -> None:
    assert found([letter("b", 1)], message("a"), message("b")) == [None, 0]
    assert found([letter("b", 1)], message("b"), message("a")) == [0, None]
    assert found([letter("b", 1)], message("x"), message("a"), message("b")) == [None, None, 0]
    assert found([letter("eu:t", 0)], message("us:t")) == [None]


def test_messages_for_one_destination_are_told_apart_by_their_keys() -> None:
    assert found([letter("a", 1, b"y")], message("a", b"x"), message("a", b"y")) == [None, 0]
    assert found([letter("a", 1, b"y")], message("a", b"y"), message("a", b"x")) == [0, None]


def test_another_key_does_not_part_a_message_from_its_letter() -> None:
    assert found([letter("a", 0, b"old")], message("a", b"new")) == [0]
    assert found([letter("a", 1, b"old")], message("a", b"x"), message("a", b"new")) == [None, 0]


def test_a_letter_is_about_one_message_only() -> None:
    assert found([letter("a", 0)], message("a"), message("a")) == [0, None]
    assert found([letter("a", 0), letter("a", 1)], message("a"), message("a")) == [0, 1]
    assert found([letter("a", 0), letter("a", 1)], message("a")) == [0]


def test_a_letter_of_a_record_is_about_every_message_without_one_of_its_own() -> None:
    assert found([letter(None), letter("b", 1)], message("a"), message("b"), message("c")) == [0, 1, 0]


def test_topics_are_compared_as_the_table_has_them() -> None:
    assert found([letter("a\\x00b")], message("a\0b")) == [0]


@pytest.mark.parametrize(("record_id", "whole"), [("e" * 2_400, True), ("e" * 2_401, False), ("é" * 1_201, False)])
def test_an_id_that_no_index_takes_is_stored_as_its_beginning_and_digest(record_id: str, whole: bool) -> None:
    stored = stored_id(record_id)
    assert (stored == record_id) == whole
    assert len(stored.encode()) <= 2_400
    assert stored_id(stored) == stored
    assert whole or stored != stored_id(record_id + "x")
