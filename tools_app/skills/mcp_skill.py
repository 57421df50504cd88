"""Skills that are aliases of an MCP server's tool, with a manifest and permissions of their own."""

import asyncio
from dataclasses import replace
from typing import Any

from tools_app.skills.installed import Installed, at_least, check_permissions, checked_output, spec_of
from tools_app.types import AsyncTool, Effect, Risk, ToolContext


class McpSkill(AsyncTool):
    """An alias of `tool`. Its manifest can only raise the tool's risk and effect."""

    def __init__(self, installed: Installed, tool: AsyncTool) -> None:
        self._installed = installed
        self._tool = tool
        own = spec_of(installed)
        effect = own.effect if own.effect is tool.spec.effect else Effect.ONCE
        self.spec = replace(own, effect=effect, server=tool.spec.server, stands_for=tool.spec.name)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        check_permissions(self._installed)
        value = await self._tool.run(arguments, context)
        # In a thread: evaluating a third-party schema may block, and other runs share this loop.
        return await asyncio.to_thread(checked_output, self._installed, value)

    def risk_of(self, arguments: dict[str, Any]) -> Risk:
        return at_least(self.spec.risk, self._tool.risk_of(arguments))
