"""Real servers for the tests: PostgreSQL, Kafka and a proxy that breaks connections on purpose."""
