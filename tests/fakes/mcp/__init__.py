"""MCP servers of ours: a good one written with the SDK, and bad ones written by hand."""
