"""Demo and benchmarks, with the servers and the load that they bring. Only the command line enters here."""
