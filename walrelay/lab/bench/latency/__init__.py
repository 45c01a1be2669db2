"""From COMMIT to a consumer: walrelay beside polling workers, and what the database pays for each."""
