"""Skills: what publishers offer to agents, as HTTP endpoints, as tools of MCP servers, or as instructions to read."""
