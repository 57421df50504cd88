"""The tools that Komand brings along, by name. Which others an agent has, `catalogue` knows."""

from audit_app.kernel.registry import Registry
from tools_app.types import AnyTool

tools: Registry[AnyTool] = Registry("tool", lambda tool: tool.spec.name)
