"""`walrelay bench`: latency and cost beside polling; throughput beside what PostgreSQL can give."""
