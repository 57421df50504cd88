"""The offers of Komand to MCP clients; each module registers one subject in `sessions_app.surfaces.mcp.registry`."""
