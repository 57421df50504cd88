"""The Agent2Agent protocol (A2A) 1.0."""
