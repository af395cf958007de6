"""Native join engines."""
