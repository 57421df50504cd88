"""The conformance suite of MCP, run against this server with the suite's fixtures."""
