"""`walrelay audit`: the table compared with the topics."""
