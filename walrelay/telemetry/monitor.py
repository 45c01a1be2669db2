"""What watches the relays of a process: their numbers, the endpoints that show them, and systemd."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from walrelay.errors import Fatal
from walrelay.observe import Observer, Observers
from walrelay.observe.numbers import RelayNumbers
from walrelay.telemetry.endpoints import Endpoints
from walrelay.telemetry.listener import Listener
from walrelay.telemetry.otlp.options import OtlpOptions
from walrelay.telemetry.systemd import SystemdNotifier
from walrelay.telemetry.views import Views
from walrelay.wiring import Wiring

if TYPE_CHECKING:
    from walrelay.telemetry.otlp.sending import OtlpSending


class MonitorOptions(NamedTuple):
    """`address` None: there are no endpoints. `topics`: how many of a relay have numbers of their own. `stall_after`:
    seconds. `otlp` None: there is no collector.
    """

    address: tuple[str, int] | None
    topics: int = 100
    aliases: Mapping[str, str] = {}
    stall_after: float = 60.0
    otlp: OtlpOptions | None = None


class Monitor:
    """Implements `walrelay.compose.Watching`."""

    def __init__(self, options: MonitorOptions) -> None:
        self._options, self._views = options, Views()
        self._sending: OtlpSending | None = None

    def watch(self, name: str, wiring: Wiring) -> Sequence[Observer]:
        wiring.sink.watch()
        several = "" not in wiring.sink.kinds
        numbers = RelayNumbers(wiring.slot, several_sinks=several, topics=self._options.topics)
        numbers = self._views.add(name, wiring, numbers)
        return [numbers, *(self._sending.watch(name, wiring, numbers) if self._sending else ())]

    def forget(self, name: str) -> None:
        self._views.remove(name)
        if self._sending:
            self._sending.forget(name)

    @contextmanager
    def telling(self, observer: Observer, env: Mapping[str, str] = os.environ) -> Iterator[None]:
        """Inside, whoever asks has an answer, and systemd is told. Fatal where a library is missing.
        `observer`: the process's own.
        """
        safe = Observers(observer)
        with ExitStack() as stack:
            stack.callback(self._views.close)
            if self._options.otlp is not None:
                self._sending = self._sending_to(self._options.otlp, safe)
                stack.enter_context(self._sending.sending())
            if self._options.address is not None:
                stack.enter_context(self._listener(*self._options.address, safe))
            if env.get("NOTIFY_SOCKET"):
                stall_after = self._options.stall_after
                stack.enter_context(SystemdNotifier(env, self._views.without_asking, stall_after, safe))
            yield

    def _listener(self, host: str, port: int, observer: Observer) -> Listener:
        try:
            from walrelay.telemetry.prometheus import Exposition
        except ImportError:
            hint = "pip install 'walrelay[metrics]'"
            raise Fatal(
                "http.listen shows metrics, for which prometheus_client is missing", hint=hint, page="listening"
            ) from None
        text = Exposition(self._views, self._options.aliases).text
        return Listener(host, port, Endpoints(self._views, self._options.stall_after, text), observer)

    def _sending_to(self, options: OtlpOptions, observer: Observer) -> "OtlpSending":
        try:
            from walrelay.telemetry.otlp.sending import OtlpSending
        except ImportError:
            hint = "pip install 'walrelay[otel]'"
            text = "otlp.endpoint is set, and packages of OpenTelemetry's are missing"
            raise Fatal(text, hint=hint, page="listening") from None
        return OtlpSending(options, self._views, observer)
