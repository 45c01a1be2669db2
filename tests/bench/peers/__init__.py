"""Peers, side by side: what a team would pick instead, on the same rows, the same Kafka, the same consumer."""
