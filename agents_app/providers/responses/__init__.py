"""The Responses protocol as pure functions and state machines, without network, SDK or settings."""
