"""What tailing the WAL buys over polling, and how close the relay comes to what PostgreSQL can give."""
