"""Confirm: the ledger that computes which position PostgreSQL may forget up to. Pure."""

from walrelay.confirm.ledger import Ledger

__all__ = ["Ledger"]
