"""`python -m walrelay`."""

from walrelay.cli import main

main()
