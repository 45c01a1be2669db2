"""What carries a sink whose client is written for asyncio: the loop, the lanes, and the sink around a connection.

Sinks of other packages may use all that is named here (docs/guides/writing-a-sink.md).
"""

from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting.contract import HostedConnection, InDoubt, Misfit, Sending, Taken, Window
from walrelay.sinks.hosting.lanes import Lanes
from walrelay.sinks.hosting.loop import PumpedLoop
from walrelay.sinks.hosting.prepared import PreparedMessages
from walrelay.sinks.hosting.settings import HostedSettings, TlsSettings
from walrelay.sinks.hosting.sink import HostedSink, RefusalMemory, lane_of_key

__all__ = [
    "HostedConnection",
    "HostedSettings",
    "HostedSink",
    "InDoubt",
    "Lanes",
    "Misfit",
    "PreparedMessages",
    "PumpedLoop",
    "RefusalMemory",
    "Sending",
    "Taken",
    "TlsSettings",
    "Window",
    "client_library",
    "lane_of_key",
]
