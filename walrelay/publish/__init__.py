"""Publish: the Sink contract, the plug-in door, and what becomes of a message that is refused."""

from walrelay.publish.aside import Aside, Letters, Memory
from walrelay.publish.careful import CarefulRouter, CarefulSink
from walrelay.publish.contract import (
    ExactlyOncePlugin,
    ExactlyOnceSink,
    Found,
    MakesTopics,
    ReadBack,
    Recall,
    Recalled,
    Sink,
    SinkPlugin,
    Span,
)
from walrelay.publish.plugins import installed, load, load_exactly_once, load_makes_topics, load_read_back
from walrelay.publish.policy import Policy, refused
from walrelay.publish.push import Push

__all__ = [
    "Aside",
    "CarefulRouter",
    "CarefulSink",
    "ExactlyOncePlugin",
    "ExactlyOnceSink",
    "Found",
    "Letters",
    "MakesTopics",
    "Memory",
    "Policy",
    "Push",
    "ReadBack",
    "Recall",
    "Recalled",
    "Sink",
    "SinkPlugin",
    "Span",
    "installed",
    "load",
    "load_exactly_once",
    "load_makes_topics",
    "load_read_back",
    "refused",
]
