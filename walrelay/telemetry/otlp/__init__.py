"""Metrics, traces and logs for a collector of OpenTelemetry's protocol, OTLP.

The relay's thread only puts things into bounded queues; threads of this package make OTLP of them and send it. What the
collector does not take in time is dropped and counted.
"""
