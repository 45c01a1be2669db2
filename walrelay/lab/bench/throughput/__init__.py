"""Draining a backlog: walrelay into different sinks, beside what PostgreSQL can give and a worker that polls."""
