"""The two-minute tour: a database, a broker, a writer, the real relay and a consumer, and what came of it."""
