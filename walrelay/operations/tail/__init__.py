"""`walrelay tail`: what is committed, shown."""
