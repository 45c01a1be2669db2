"""Source: a replication slot as a stream of frames, and where it begins."""
