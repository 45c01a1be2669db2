"""What watches the relays of a process: their numbers, and the endpoints that show them."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.observe import Listening, Observer
from walrelay.telemetry.listener import Endpoints, Listener
from walrelay.telemetry.numbers import RelayNumbers
from walrelay.telemetry.views import Views
from walrelay.wiring import Wiring


class MonitorOptions(NamedTuple):
    """`topics`: how many of a relay have numbers of their own. `stall_after`: seconds."""

    host: str
    port: int
    topics: int = 100
    aliases: Mapping[str, str] = {}
    stall_after: float = 60.0


class Monitor:
    """The numbers of the relays of a process, from when they are watched until they are forgotten."""

    def __init__(self, options: MonitorOptions, observer: Observer) -> None:
        self._options, self._observer, self._views = options, observer, Views()

    def watch(self, name: str, wiring: Wiring) -> Observer:
        """Whom to tell what happens to that relay."""
        several = "" not in wiring.sink.kinds
        numbers = RelayNumbers(wiring.slot, several_sinks=several, topics=self._options.topics)
        self._views.add(name, wiring, numbers)
        return numbers

    def forget(self, name: str) -> None:
        """That relay is no more."""
        self._views.remove(name)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Answers whoever asks. Fatal where the port is in use, or the library is missing."""
        host, port, _, aliases, stall_after = self._options
        try:
            from walrelay.telemetry.prometheus import Exposition
        except ImportError:
            hint = "pip install 'walrelay[metrics]'"
            raise Fatal("http.listen shows metrics, for which prometheus_client is missing", hint=hint) from None
        endpoints = Endpoints(self._views, stall_after, Exposition(self._views, aliases).text)
        with closing(self._views), Listener(host, port, endpoints) as listener:
            self._observer.saw(Listening(host, listener.port))
            yield
