"""Workstreams: child runs that an agent launches by tools and that work beside it."""
