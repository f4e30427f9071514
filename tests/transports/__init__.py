"""Transports over real pipes, sockets, terminals, files and processes."""
