"""Storage of agents: files of sessions, and memories."""
