"""PostgreSQL as mechanism: connections, its errors, its catalog, locks and snapshots. Not what an outbox means."""
