"""Handshake join in software: models of both chains, and the same on worker processes."""
