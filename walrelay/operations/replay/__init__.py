"""`walrelay replay`: rows of the table published again."""
