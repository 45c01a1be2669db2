"""Publish: the Sink contract, the plug-in door, and when what a sink holds back is pushed out."""

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
from walrelay.publish.push import Push
from walrelay.publish.refused import refused

__all__ = [
    "ExactlyOncePlugin",
    "ExactlyOnceSink",
    "Found",
    "MakesTopics",
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
