"""`walrelay recover`: how far the relay of a lost slot got, and which rows no table has any more."""
