"""Skills that publishers offer to agents: HTTP endpoints, tools of MCP servers, or instructions to read."""
