"""What a benchmark found, shown: tables for the terminal, charts, and a page that stands on its own."""
