"""Gateware of eddyline, described in Amaranth."""
