"""Which rows somebody asks for, and from where on in their order."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.table.selection import Key


class RowQuestion(NamedTuple):
    """Rows with these ids, or of an aggregate (type, and id unless all are meant), or written in a period; all that is
    given has to match. `after`: `next` of the page before. `reads`: topics are to be read back; `topics`: these besides
    those of the rules.
    """

    ids: Sequence[str] = ()
    aggregate: tuple[str, str | None] | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50
    after: str = ""
    reads: bool = False
    topics: Sequence[str] = ()

    @property
    def asks(self) -> bool:
        """Whether it names any rows."""
        return bool(self.ids or self.aggregate or self.since or self.until)


def page_of(key: Sequence[bytes | None]) -> str:
    """`after` for the rows behind the one with this key."""
    texts = [None if each is None else each.decode("utf-8", "surrogateescape") for each in key]
    return urlsafe_b64encode(json.dumps(texts).encode()).decode()


def key_of(page: str, length: int) -> Key:
    """The inverse of `page_of`; Fatal for anything else."""
    try:
        texts = json.loads(urlsafe_b64decode(page.encode()))
        if not isinstance(texts, list) or len(texts) != length:
            raise ValueError
        if not all(each is None or (isinstance(each, str) and "\0" not in each) for each in texts):
            raise ValueError
    except (ValueError, RecursionError):
        raise Fatal("`after` is not what `next` of a page said", hint="Ask again without it.") from None
    return tuple(texts)
