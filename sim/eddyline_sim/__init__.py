"""The cycle-exact simulator of the gateware."""
