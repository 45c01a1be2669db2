"""Decode: frames of either output plugin become committed outbox records. Pure."""
