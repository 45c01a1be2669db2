"""The replication protocol as values: frames, the two output plugins, command texts. Pure."""
