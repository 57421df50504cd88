"""Background task of a runs worker that maintains its connections to MCP servers, and closes them at the end."""

import asyncio
import logging

from tools_app.mcp_client.mcp_tools import connections

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0


async def run() -> None:
    """Maintain the connections until cancelled."""
    try:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await connections.look_after()
            except Exception:
                logger.exception("maintaining the connections to MCP servers failed; retrying")
    finally:
        await connections.aclose()
