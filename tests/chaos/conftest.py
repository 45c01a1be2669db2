"""Fixtures of the chaos tests: those of the acceptance tests."""

from tests.acceptance.conftest import deploy, measured, pytest_terminal_summary

__all__ = ["deploy", "measured", "pytest_terminal_summary"]
