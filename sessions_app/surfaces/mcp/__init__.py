"""Komand as an MCP server: agents and the caller's sessions as tools, at `/mcp` over Streamable HTTP."""
