"""The operators' pages of tool executions, of what was allowed in advance, and of what tools use and keep."""

from tools_app.admin import artifacts, credentials, executions, grants, inputs, mcp, memory, skills

__all__ = ["artifacts", "credentials", "executions", "grants", "inputs", "mcp", "memory", "skills"]
