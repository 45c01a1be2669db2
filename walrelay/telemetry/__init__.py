"""Telemetry: what the relay tells, as logs."""
