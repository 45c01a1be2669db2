"""The operations of the commands, one package or module each; no operation imports another."""
