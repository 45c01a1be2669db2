"""Where a message goes at a broker, as a template of the settings: text with `{topic}`, `{key}` and `{header.NAME}`.

A message that lacks what the template asks for has no address: it is refused, and goes nowhere else instead.
"""

from collections.abc import Callable, Iterable
from string import Formatter
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from walrelay.errors import WalrelayError
from walrelay.model import Message

_HEADER = "header."
_SOME = "*"  # in a topic


class NoAddress(WalrelayError):
    """The message has no address by this template; the text says why."""


class _Part(NamedTuple):
    literal: str  # before the name
    name: str  # "topic", "key", "header.NAME" or ""


class AddressTemplate:
    """Of a text; ValueError if that is no template. Called with a message it gives its address, or raises NoAddress.
    `written`: how a value is written in such an address.
    """

    def __init__(self, text: str, written: Callable[[str], str] = str) -> None:
        self.text, self._written = text, written
        self._parts = [*_parts(text)]
        self.by_row = any(part.name not in ("", "topic") for part in self._parts)
        """Whether only a row says where its message goes."""
        self._make = self._of_topic_and_row()

    def __call__(self, message: Message) -> str:
        return self._make(message)

    def of_topic(self, topic: str) -> str:
        """The address of every message of that topic, for a template that is not `by_row`."""
        return "".join(part.literal + (self._written(topic) if part.name else "") for part in self._parts)

    def of_topics(self, topics: Iterable[str]) -> dict[str, str]:
        """The addresses that are known beforehand, each with the first topic whose messages go there. `*` in a topic is
        what only a row can say.
        """
        found: dict[str, str] = {}
        for topic in () if self.by_row else topics:
            found.setdefault(self.of_topic(topic), topic)
        return {address: topic for address, topic in found.items() if _SOME not in address}

    def _of_topic_and_row(self) -> Callable[[Message], str]:
        if self._parts == [_Part("", "topic")] and self._written is str:
            return lambda message: message.topic
        if not self.by_row:
            return lambda message: self.of_topic(message.topic)
        return lambda message: "".join(
            part.literal + (self._written(_value(message, part.name)) if part.name else "") for part in self._parts
        )


def place_by(*templates: AddressTemplate) -> Callable[[Message], str]:
    """Where a message goes by all of these together; see `SinkPlugin.place`."""
    return lambda message: " ".join(template(message) for template in templates)


def url_parts(text: str, *, with_password: bool = True) -> SplitResult:
    """`urlsplit`, which also looks at the port. ValueError, which shows nothing of the text: a password with a slash or
    a hash sign in it is taken for something else. `with_password`: an at sign is behind one.
    """
    try:
        parts = urlsplit(text)
        if (parts.port is None or parts.port >= 0) and with_password and "@" in text and "@" not in parts.netloc:
            raise ValueError
    except ValueError:
        raise ValueError(
            "it is no URL: behind the host is no port. Percent-encode what is odd in a password: %2F is a slash, %23 a"
            " hash sign, %3F a question mark, %40 an at sign"
        ) from None
    return parts


def is_address_template(text: str) -> str:
    """For validators of settings: the text, or ValueError."""
    AddressTemplate(text)
    return text


def _parts(text: str) -> list[_Part]:
    parts = []
    try:
        for literal, name, form, conversion in Formatter().parse(text):
            if form or conversion:
                raise ValueError("it has no formats and conversions")
            parts.append(_Part(literal, name or ""))
            if name is not None and name not in ("topic", "key") and not (name.startswith(_HEADER) and name > _HEADER):
                raise ValueError(f"{{{name}}} is unknown, there are {{topic}}, {{key}} and {{header.NAME}}")
    except ValueError as why:
        raise ValueError(f"{text!r} is no template of an address: {why}") from why
    return parts


def _value(message: Message, name: str) -> str:
    if name == "topic":
        return message.topic
    if name == "key":
        value = message.key
    else:
        wanted = name.removeprefix(_HEADER)
        value = next((value for header, value in message.headers if header == wanted), None)
    if value is None:
        raise NoAddress(f"the address has {{{name}}}, and the message has none")
    try:
        return value.decode()
    except UnicodeDecodeError as why:
        raise NoAddress(f"the address has {{{name}}}, and the message's is not UTF-8") from why


def hosts(addresses: Iterable[str]) -> str:
    """Where servers are, without users and passwords."""
    return ", ".join(urlsplit(each).netloc.rpartition("@")[2] for each in addresses)
