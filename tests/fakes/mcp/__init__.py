"""Fake MCP servers: a correct one, written with the SDK, and faulty ones without it."""
