"""A process that owns a device, and others that use it: over a Unix socket and shared memory."""
