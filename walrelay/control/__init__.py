"""What an operator asks of a relay through the database, and what each relay reports there: the table walrelay.relays.

A pause is obeyed by the leader, in the relay's own thread. Everything else stands beside the loop: one thread for each
database listens and writes, and whatever happens to it happens to no relay.
"""
