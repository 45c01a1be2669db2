"""Publish: the Sink contract, the loading of plug-ins, and when what a sink holds back is pushed out."""

from walrelay.publish.contract import (
    ExactlyOnce,
    ExactlyOnceSink,
    Expiry,
    Found,
    Recalled,
    RecalledMessage,
    Sink,
    SinkPlugin,
    SinkTraits,
    Span,
    TopicMessage,
    TopicStream,
    refused,
)
from walrelay.publish.handles import AnySinkHandle, SinkHandles
from walrelay.publish.plugins import OpenStream, ReadBack, SinkHandle, installed, load
from walrelay.publish.push import Push
from walrelay.publish.several import SeveralSinks

__all__ = [
    "AnySinkHandle",
    "ExactlyOnce",
    "ExactlyOnceSink",
    "Expiry",
    "Found",
    "OpenStream",
    "Push",
    "ReadBack",
    "Recalled",
    "RecalledMessage",
    "SeveralSinks",
    "Sink",
    "SinkHandle",
    "SinkHandles",
    "SinkPlugin",
    "SinkTraits",
    "Span",
    "TopicMessage",
    "TopicStream",
    "installed",
    "load",
    "refused",
]
