"""What surrounds an operator on a device."""
