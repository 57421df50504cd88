"""The Chat Completions protocol as pure functions and small state machines: no network, SDK or settings."""
