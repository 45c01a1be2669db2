"""The content of logical messages as UTF-8, whatever the database's encoding is.

PostgreSQL converts rows for the client, but the content of a logical message is bytes to it: what was text when it was
emitted arrives in the database's encoding. Whoever emits for walrelay in such a database therefore writes UTF-8 behind
a mark, with which no JSON in another encoding begins. Text without the mark is read where Python's codec is known to
say what PostgreSQL's conversion says, and is refused elsewhere: wrong letters would be published without a word.
"""

from codecs import BOM_UTF8

AS_THEY_ARE = frozenset({"UTF8", "SQL_ASCII"})  # of the latter nobody knows more than whoever wrote the bytes

# Single bytes: tests/integration/relaying/test_encodings.py compares every one of them with the server.
CODECS = {
    **{f"LATIN{number}": f"iso8859-{part}" for number, part in enumerate((1, 2, 3, 4, 9, 10, 13, 14, 15, 16), 1)},
    **{f"ISO_8859_{part}": f"iso8859-{part}" for part in (5, 6, 7, 8)},
    **{f"WIN{page}": f"cp{page}" for page in (866, 874, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)},
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
}


def in_utf8(content: bytes, encoding: str) -> bytes:
    """The content without its mark; `encoding` as the server names the database's. ValueError where it is not known
    what the bytes mean.
    """
    if content.startswith(BOM_UTF8):
        return content.removeprefix(BOM_UTF8)
    if encoding in AS_THEY_ARE or content.isascii():  # all encodings of a server have ASCII in them
        return content
    if encoding not in CODECS:
        raise ValueError(f"its text is in the database's encoding, {encoding}, which is not read here")
    return str(content, CODECS[encoding]).encode()
