"""Telemetry: what the relay tells, as logs. (Metrics, traces and health will stand here.)"""
