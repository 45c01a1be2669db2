"""Which dead letter is a message's. A message is its record and its destination: the address that it goes to.

Settings change between a refusal and the next reading of its record, or its replay. So the place of a message in the
list that today's rules make says nothing: another message has it after a rule was put before.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol, TypeVar

from walrelay.dead_letter import DeadLetter
from walrelay.lsn import LSN
from walrelay.model import Message

_LONGEST_ID = 2_400  # bytes; with a slot's name and a position it fits into an entry of an index
_KEPT_OF_ID = 200  # characters of a longer one


class RecordKey(NamedTuple):
    """Which record. The id is part of it because positions repeat in another history of WAL, after a restore for
    instance.
    """

    commit_lsn: LSN
    ordinal: int
    record_id: str


class MessageLetter(Protocol):
    """What a dead letter says of its message. `topic`: its address, None for a letter of a whole record. `number`: its
    place among those of its record, by the rules of then.
    """

    @property
    def topic(self) -> str | None: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def number(self) -> int: ...


L = TypeVar("L", bound=MessageLetter)
_Same = Callable[[MessageLetter, Message, int], bool]

# Several messages of a record may go to one destination: they are told apart by the key, then by their order.
_SAME: tuple[_Same, ...] = (
    lambda letter, message, number: letter.key == message.key and letter.number == number,
    lambda letter, message, number: letter.key == message.key,
    lambda letter, message, number: letter.number == number,
    lambda letter, message, number: True,
)


def letters_of_messages(letters: Sequence[L], messages: Sequence[Message]) -> list[L | None]:
    """For each message of a record that record's dead letter about it; None: none is. A letter of the whole record is
    about each message that has no letter of its own.
    """
    whole = next((letter for letter in letters if letter.topic is None), None)
    found: list[L | None] = [None] * len(messages)
    left = [letter for letter in letters if letter.topic is not None]
    free = {number: stored_text(message.topic) for number, message in enumerate(messages)}
    for same in _SAME:
        for letter in [*left]:
            topic = stored_text(letter.topic or "")
            for number, address in free.items():
                if address == topic and same(letter, messages[number], number):
                    found[number] = letter
                    left.remove(letter)
                    del free[number]
                    break
    return [each or whole for each in found]


def of_records(letters: Iterable[DeadLetter]) -> dict[RecordKey, list[DeadLetter]]:
    """By record."""
    found: dict[RecordKey, list[DeadLetter]] = {}
    for letter in letters:
        lsn, ordinal, _, record_id = letter.origin
        found.setdefault(RecordKey(lsn, ordinal, stored_id(record_id)), []).append(letter)
    return found


def stored_text(value: str) -> str:
    """Text that PostgreSQL takes: no NUL, and what is not UTF-8 as an escape."""
    return value.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def stored_id(record_id: str) -> str:
    """The id of a record in the table, where indexes have it: of one that is too long for them its beginning and its
    digest. The record has all of it.
    """
    text = stored_text(record_id)
    raw = text.encode()
    return text if len(raw) <= _LONGEST_ID else f"{text[:_KEPT_OF_ID]}... sha256:{sha256(raw).hexdigest()}"
