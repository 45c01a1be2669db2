"""What an operator can ask for, one package or module a command; no operation imports another."""
