"""The life of this process's connections to MCP servers, beside the engine: looked after, closed at the end."""

import asyncio
import logging

from tools_app.mcp_client.mcp_tools import connections

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0


async def run() -> None:
    """A chore of the engine's loop: runs until it is cancelled."""
    try:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await connections.look_after()
            except Exception:
                logger.exception("looking after the MCP servers failed; again in a moment")
    finally:
        await connections.aclose()
