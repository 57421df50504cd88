"""Komand as an MCP client: servers and their tools as rows, connections to them, and the tools as agents get them.

`connection` and what it needs load the SDK, which takes half a second and some 30 MB: they are imported by path, at the
first use of a server.
"""
