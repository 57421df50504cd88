"""The tools that agents can be offered."""

from audit_app.kernel.registry import Registry
from tools_app.types import Tool

tools: Registry[Tool] = Registry("tool", lambda tool: tool.spec.name)
