"""The built-in tools, by name. `catalogue` also knows those of MCP servers and skills."""

from audit_app.kernel.registry import Registry
from tools_app.types import AnyTool

tools: Registry[AnyTool] = Registry("tool", lambda tool: tool.spec.name)
