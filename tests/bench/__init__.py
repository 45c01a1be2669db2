"""Benchmarks: `make bench`. Measured, printed, never asserted in timed tests."""
