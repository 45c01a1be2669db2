"""What a demo or a benchmark needs of a broker."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NamedTuple, Protocol
from urllib.parse import urlsplit

from walrelay.errors import Fatal
from walrelay.lab.servers.backstage import Backstage, Child, waited
from walrelay.model import Finding
from walrelay.publish.contract import SinkPlugin

_PATIENCE = 60.0  # seconds; RabbitMQ takes ten on a quiet machine


class ReadMessage(NamedTuple):
    """As a consumer of the broker's own client got it."""

    id: str
    key: str
    value: bytes


class LabConsumer(Protocol):
    """Gets what comes into a topic after it was made. Used by one thread at a time."""

    def receive(self) -> Iterable[ReadMessage]:
        """What is there; where nothing is, a moment later perhaps still nothing."""
        ...

    def close(self) -> None: ...


class LabBroker(Protocol):
    """`name`: what is shown of it. `environment`: what the settings of its sink name."""

    name: str
    version: str

    @property
    def environment(self) -> Mapping[str, str]: ...

    def ready(self) -> None:
        """Returns once it answers."""
        ...

    def sink(self, topic: str) -> Mapping[str, Any]:
        """The section of the settings. No secret is in it."""
        ...

    def topic(self, name: str, complain: Callable[[str], None]) -> AbstractContextManager[None]:
        """An empty topic, there while it is entered; `complain` hears what could not go."""
        ...

    def consumer(self, topic: str) -> LabConsumer: ...

    def held(self, topic: str) -> int:
        """How many messages of the topic it has."""
        ...


class ServedBroker(ABC):
    """Of its own, as a child, or the user's at an address. `walrelay init --topics` would make the same topics."""

    KIND: ClassVar[str]
    TITLE: ClassVar[str]
    PLUGIN: ClassVar[SinkPlugin]
    URL: ClassVar[str] = "url"
    """The setting that has the address."""

    def __init__(self, backstage: Backstage, url: str | None) -> None:
        self._backstage, self._is_own, self.version = backstage, url is None, ""
        self._address = self._begin() if url is None else url
        self.name = f"{self.TITLE} of its own" if url is None else f"your {self.TITLE} at {_shown(url)}"

    @property
    def environment(self) -> Mapping[str, str]:
        return {"SINK_URL": self._address}

    def ready(self) -> None:
        if self._is_own:
            self._address = self._until_ready()
        for finding in self.PLUGIN.examine(self._settings(""), ()):
            if finding.verdict == "problem":
                raise self._unusable(finding)
        self.version = self._version()

    def sink(self, topic: str) -> Mapping[str, Any]:
        return {"kind": self.KIND, self.URL: "${SINK_URL}", **self._named(topic)}

    @contextmanager
    def topic(self, name: str, complain: Callable[[str], None]) -> Iterator[None]:
        assert self.PLUGIN.make_topics is not None
        self._remove(name)  # a demo that was killed may have left it
        for _ in self.PLUGIN.make_topics(self._settings(name), [name], 1, None):
            pass
        try:
            yield
        finally:
            if not self._is_own:
                try:
                    self._remove(name)
                except Exception as error:  # of any client library
                    complain(f"what was made at {self.name} could not be removed: {error}")

    @abstractmethod
    def consumer(self, topic: str) -> LabConsumer: ...

    @abstractmethod
    def held(self, topic: str) -> int: ...

    @abstractmethod
    def _begin(self) -> str:
        """Begins to start one; its address."""

    @abstractmethod
    def _until_ready(self) -> str:
        """Waits until the own one answers; its address."""

    @abstractmethod
    def _version(self) -> str: ...

    @abstractmethod
    def _remove(self, topic: str) -> None:
        """If it is there."""

    def _named(self, topic: str) -> Mapping[str, Any]:
        """Settings that depend on the topic's name."""
        return {}

    def _settings(self, topic: str) -> Any:
        try:
            return self.PLUGIN.settings.model_validate({self.URL: self._address, **self._named(topic)})
        except ValueError as error:
            told = "; ".join(each["msg"].removeprefix("Value error, ") for each in getattr(error, "errors", list)())
            raise Fatal(f"--sink-url is no address of {self.TITLE}: {told or error}") from error

    def _unusable(self, finding: Finding) -> Fatal:
        setting = ".".join(("sink", self.URL))  # which the option makes
        fix = finding.fix.replace(setting, "--sink-url")
        return Fatal(f"{self.name} cannot be used: {finding.detail}", hint=fix)


def until(child: Child, answers: Callable[[], bool], last: str = "did not answer in time") -> None:
    """Until it answers; Fatal when it ends, or takes too long."""

    def over() -> bool:
        try:
            return not child.running or answers()
        except OSError:
            return False

    answered = waited(over, _PATIENCE)
    if not child.running:
        raise child.failure("ended while starting")
    if not answered:
        raise child.failure(last)


def text(value: Any) -> str:
    """Of a header, which clients give as text or bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def messages(found: Iterable[tuple[Mapping[Any, Any], bytes]]) -> Sequence[ReadMessage]:
    """Of headers, one of which is the key, and payloads."""
    return [ReadMessage(text(headers["id"]), text(headers.get("key", "")), value) for headers, value in found]


def _shown(url: str) -> str:
    """Without user and password."""
    return ", ".join(urlsplit(each.strip()).netloc.rpartition("@")[2] for each in url.split(",")) or "that address"
