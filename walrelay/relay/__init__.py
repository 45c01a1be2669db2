"""The relay: the loop, and what becomes of the receipts."""
