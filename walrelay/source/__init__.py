"""Source: a replication slot as a stream of frames, and everything else that is asked of PostgreSQL."""
