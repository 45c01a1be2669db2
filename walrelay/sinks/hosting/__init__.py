"""What carries a sink whose client is written for asyncio: the loop, the lanes, and the sink around a connection."""

from walrelay.sinks.hosting.lanes import Lanes
from walrelay.sinks.hosting.loop import PumpedLoop
from walrelay.sinks.hosting.sink import HostedConnection, HostedSink, Misfit, RefusalMemory, Sending, Window

__all__ = ["HostedConnection", "HostedSink", "Lanes", "Misfit", "PumpedLoop", "RefusalMemory", "Sending", "Window"]
