"""Handshake join: two streams walk past each other along a chain of cores."""
