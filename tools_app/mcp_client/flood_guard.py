"""Limits the rate of messages between a transport and the session, and detects the end of the connection."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextvars import Context, copy_context
from typing import Any

import anyio
from mcp.shared._context_streams import ContextReceiveStream
from mcp.shared.message import SessionMessage

from tools_app.mcp_client.errors import ServerFault
from tools_app.mcp_client.token_bucket import Bucket

_MESSAGES_AT_ONCE, _MESSAGES_PER_SECOND = 2_000, 100


@contextlib.asynccontextmanager
async def guarded(transport: Any, on_end: Callable[[ServerFault | None], None]) -> AsyncIterator[Any]:
    """Yield the transport's streams until it ends or floods. on_end: called with the fault, or None for an end."""
    async with transport as (read, write), anyio.create_task_group() as group:
        handed, receive = anyio.create_memory_object_stream[tuple[Context, SessionMessage | Exception]](0)
        group.start_soon(_pump, read, handed, on_end)
        try:
            yield ContextReceiveStream(receive), write
        finally:
            group.cancel_scope.cancel()
            receive.close()


async def _pump(read: Any, handed: Any, on_end: Callable[[ServerFault | None], None]) -> None:
    bucket = Bucket(_MESSAGES_AT_ONCE, _MESSAGES_PER_SECOND)
    async with handed:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for item in read:
                if not bucket.take(1):
                    on_end(ServerFault("it sends too many messages"))
                    return
                # The context of the request that the message answers, if the transport knows it.
                await handed.send((getattr(read, "last_context", None) or copy_context(), item))
        on_end(None)
