"""The outbox as a table: which rows, in which order, and what is known of them."""
