"""The demo provider: pure functions of the messages, and the provider that streams their result."""
