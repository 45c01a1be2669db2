"""What is sent to Redis as one: a script that adds a group of entries to their streams, up to the first that fails.

A script runs alone, and the next group is sent when the answer to it is there. So nothing overtakes an entry that Redis
does not take, whatever stream it is for; in a pipeline, Redis would take what follows.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from walrelay.model import Message
from walrelay.sinks.redis.settings import RedisSettings

HEADERS = 3_900
"""How many an entry may have: Lua hands about 8,000 names and values to a command."""

NAME = 16_384
"""How many characters its name may have, far below what Redis takes."""

NO_STREAM, FENCED = "NOSTREAM", "FENCED"
"""What the scripts say beside Redis's own errors."""

_ADD = """
local done, ids, at = 0, {}, %(first)s
%(time)s
while at <= #ARGV do
  local key, fields = KEYS[tonumber(ARGV[at])], tonumber(ARGV[at + 1])
  local id = redis.pcall('XADD', key, %(options)s'*', unpack(ARGV, at + 2, at + 1 + fields))
  if type(id) ~= 'string' then
    %(undo)s
    return {done, id and id.err or 'NOSTREAM'}
  end
  done = done + 1
  %(note)s
  at = at + 2 + fields
end
"""
_OLDEST = """
local now = redis.call('TIME')
local oldest = string.format('%%.0f', math.max(0, now[1] * 1000 + math.floor(now[2] / 1000) - %.0f))
"""
_GUARD = """
if redis.call('HGET', KEYS[#KEYS], 'owner') ~= ARGV[1] then
  return {0, 'FENCED'}
end
"""
_UNDO = "for _, entry in ipairs(ids) do redis.call('XDEL', entry[1], entry[2]) end"
_POSITION = """
redis.call('HSET', KEYS[#KEYS], 'position', ARGV[2])
"""


class Entry(NamedTuple):
    """Of a stream: its fields and their values, one after the other."""

    stream: bytes
    fields: Sequence[bytes]


def script(settings: RedisSettings, *, exactly_once: bool = False) -> str:
    """Returns how many entries were added, and if that is not all of them, why not the next.

    Exactly once, the last key is a hash with the owner, who alone may publish, and the position, which is set together
    with the entries; they come before the entries. Then all are added or none.
    """
    options, time = "", ""
    if not settings.create_streams:
        options += "'NOMKSTREAM', "
    if settings.max_entries is not None:
        options += f"'MAXLEN', '~', '{settings.max_entries}', "
    if settings.max_age is not None:
        time = _OLDEST % (settings.max_age * 1000)
        options += "'MINID', '~', oldest, "
    parts = {
        "first": 3 if exactly_once else 1,
        "time": time,
        "options": options,
        "undo": _UNDO if exactly_once else "",
        "note": "ids[done] = {key, id}" if exactly_once else "",
    }
    add = _ADD % parts
    return (_GUARD + add + _POSITION if exactly_once else add) + "return {done}"


def fields_of(message: Message, key_field: str | None, value_field: str) -> list[bytes]:
    """Key and value, where the message has them, and all headers."""
    fields = []
    if key_field is not None and message.key is not None:
        fields += [encoded(key_field), message.key]
    if message.value is not None:
        fields += [encoded(value_field), message.value]
    for name, value in message.headers:
        fields += [encoded(name), value or b""]
    return fields


def arguments(
    text: str, entries: Iterable[Entry], *, last_key: bytes | None = None, first: Sequence[bytes] = ()
) -> tuple[str | bytes, ...]:
    """The command that runs that script on those entries."""
    keys: dict[bytes, bytes] = {}  # -> its number, as Redis counts
    parts: list[bytes] = [*first]
    for stream, fields in entries:
        number = keys.get(stream)
        if number is None:
            number = keys[stream] = str(len(keys) + 1).encode()
        parts += [number, str(len(fields)).encode(), *fields]
    all_keys = [*keys] if last_key is None else [*keys, last_key]
    return ("EVAL", text, str(len(all_keys)), *all_keys, *parts)


@lru_cache(1_000)
def encoded(name: str) -> bytes:
    """Any bytes may be a name, also those of a database that knows no encoding."""
    return name.encode(errors="surrogateescape")
