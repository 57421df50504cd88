"""The Chat Completions protocol as pure functions and small state machines: no network, no SDK, no settings."""
