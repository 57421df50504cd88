"""Komand as an MCP server: agents and one's own sessions as tools, at `/mcp` over streamable HTTP."""
