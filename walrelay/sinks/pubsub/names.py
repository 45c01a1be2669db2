"""Names of topics, and which messages of them are in one order. Pure."""

import re
from collections.abc import Callable, Hashable
from functools import lru_cache

from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.hosting.sink import lane_of_key

MOST_IN_REQUEST = 1_000
"""Messages."""

_OTHER_LETTER = re.compile(r"[^A-Za-z0-9\-_.~+%]")
_FULL = re.compile(r"projects/([^/\s]+)/topics/([^/]+)")
_FULL_PREFIX = "projects/"


def letters_fault(name: str) -> str:
    """Why a topic's id cannot have that in it; empty where it may."""
    if not name or len(name) > 255:
        return "a topic's id has 3 to 255 characters"
    if _OTHER_LETTER.search(name):
        return "a topic's id has letters and digits of ASCII and any of -_.~+% only"
    return ""


def id_fault(text: str) -> str:
    """Why that is no id of a topic; empty if it is one."""
    if fault := letters_fault(text):
        return fault
    if len(text) < 3:
        return "a topic's id has 3 to 255 characters"
    if not text[0].isalpha():
        return "a topic's id begins with a letter"
    return "ids that begin with goog are Google's own" if text.startswith("goog") else ""


@lru_cache(1_000)
def full_name(template: str, project: str, address: str) -> str:
    """`projects/PROJECT/topics/ID` of what the template gave; ValueError where that is no topic. Only a template of the
    settings can lead to another project.
    """
    if template.startswith(_FULL_PREFIX):
        found = _FULL.fullmatch(address)
        if found is None:
            raise ValueError("it is not like projects/PROJECT/topics/ID")
        project, address = found.groups()
    if fault := id_fault(address):
        raise ValueError(fault)
    return f"projects/{project}/topics/{address}"


def lane_by(template: str) -> Callable[[Message], Hashable]:
    """What goes into one request has one topic and one key."""
    topic = AddressTemplate(template)
    if not topic.by_row:
        return lane_of_key

    def lane(message: Message) -> Hashable:
        try:
            return topic(message), message.key
        except NoAddress:  # it will be refused
            return None

    return lane
