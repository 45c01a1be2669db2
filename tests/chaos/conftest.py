"""Fixtures of the chaos tests: those of the acceptance tests."""

from tests.acceptance.conftest import deploy, measured

__all__ = ["deploy", "measured"]
