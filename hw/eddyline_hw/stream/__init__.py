"""Blocks every network of streams is made of: buffers, queues, mergers, broadcasts, a checker."""
