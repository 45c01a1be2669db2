"""Publish: the Sink contract and the door through which sinks come in."""

from walrelay.publish.contract import Recall, Recalled, Sink, SinkPlugin
from walrelay.publish.plugins import installed, load
from walrelay.publish.policy import refused
from walrelay.publish.push import Push

__all__ = ["Push", "Recall", "Recalled", "Sink", "SinkPlugin", "installed", "load", "refused"]
