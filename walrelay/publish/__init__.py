"""Publish: the Sink contract, the plug-in door, and what becomes of a message that is refused."""

from walrelay.publish.contract import ExactlyOncePlugin, ExactlyOnceSink, Recall, Recalled, Sink, SinkPlugin
from walrelay.publish.plugins import installed, load, load_exactly_once
from walrelay.publish.policy import refused
from walrelay.publish.push import Push

__all__ = [
    "ExactlyOncePlugin",
    "ExactlyOnceSink",
    "Push",
    "Recall",
    "Recalled",
    "Sink",
    "SinkPlugin",
    "installed",
    "load",
    "load_exactly_once",
    "refused",
]
