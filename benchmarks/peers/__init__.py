"""Comparison with other servers of chats and agents, each in a virtualenv of its own: `python -m benchmarks.peers`."""
