"""Publish: the Sink contract and the door through which sinks come in."""

from walrelay.publish.contract import Sink, SinkPlugin
from walrelay.publish.plugins import installed, load
from walrelay.publish.policy import refused

__all__ = ["Sink", "SinkPlugin", "installed", "load", "refused"]
