"""Admin pages of tools: executions, approvals in advance, credentials, servers, skills, and what agents store."""

from tools_app.admin import artifacts, credentials, executions, grants, inputs, mcp, memory, skills

__all__ = ["artifacts", "credentials", "executions", "grants", "inputs", "mcp", "memory", "skills"]
