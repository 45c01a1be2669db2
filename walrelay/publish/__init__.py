"""Publish: the Sink contract, the plug-in door, and what becomes of a message that is refused."""

from walrelay.publish.aside import Aside, Letters, Memory
from walrelay.publish.careful import CarefulRouter, CarefulSink
from walrelay.publish.contract import ExactlyOncePlugin, ExactlyOnceSink, Recall, Recalled, Sink, SinkPlugin
from walrelay.publish.plugins import installed, load, load_exactly_once
from walrelay.publish.policy import Policy, refused
from walrelay.publish.push import Push

__all__ = [
    "Aside",
    "CarefulRouter",
    "CarefulSink",
    "ExactlyOncePlugin",
    "ExactlyOnceSink",
    "Letters",
    "Memory",
    "Policy",
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
