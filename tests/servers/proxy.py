"""A TCP proxy on the loopback interface that breaks connections on purpose: that of the conformance suite."""

from walrelay.testing.proxy import Proxy

__all__ = ["Proxy"]
