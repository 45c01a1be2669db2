"""A case of the contract with a proxy between sink and broker, which breaks connections."""

from typing import Any, Protocol

from tests.servers.ports import free_port
from tests.servers.proxy import Proxy
from walrelay.publish import Sink, SinkPlugin
from walrelay.testing import RefusalCase, RestartCase


class ServerCase(RestartCase, RefusalCase, Protocol):
    """A broker at a port of this machine."""

    plugin: SinkPlugin
    server: Any

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink: ...

    def at(self, port: int) -> dict[str, Any]:
        """The settings for the same broker where it is found at that port."""
        ...


class CaseOfPlugin:
    """`walrelay.testing.PluginCase`."""

    def __init__(self, case: ServerCase) -> None:
        self.topic, self.plugin = case.topic, case.plugin
        self.settings, self.nowhere = case.at(case.server.port), case.at(free_port())
        self.open, self.hold, self.release, self.arrived = case.open, case.hold, case.release, case.arrived


class BreakableCase:
    """`walrelay.testing.ConnectionCase`."""

    def __init__(self, case: ServerCase, proxy: Proxy) -> None:
        self._case, self._settings = case, case.at(proxy.port)
        self.topic = case.topic
        self.hold, self.release, self.arrived = case.hold, case.release, case.arrived
        self.cut, self.half_open, self.resume = proxy.cut, proxy.half_open, proxy.resume

    def open(self, *, room: int = 10_000, seconds: float = 30) -> Sink:
        return self._case.open(room=room, request_timeout=seconds, **self._settings)
