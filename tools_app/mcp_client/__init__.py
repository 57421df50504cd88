"""MCP client: servers and their tools as rows, connections to them, and their tools for agents.

`connection`, `pool` and the transports load the MCP SDK, which takes half a second and 30 MB: they are imported by
path, when a server is first used.
"""
