"""Servers and processes that a demo or a benchmark brings with it, and that go when it goes."""
