"""The connections of one process: one per server, opened on demand, health-checked, reopened with back-off.

Loads the SDK. Belongs to one event loop.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from tools_app.mcp_client.config import ServerConfig
from tools_app.mcp_client.connection import Connection
from tools_app.mcp_client.errors import ServerFault

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 600.0
_PING_SECONDS = 60.0
_RELIST_SECONDS = 5.0
_PAUSE_MAX_SECONDS = 60.0

Load = Callable[[UUID], Awaitable[ServerConfig]]
Report = Callable[[UUID, Connection, ServerFault | None], Awaitable[None]]


@dataclass
class _Slot:
    """Connection state of one server. version: of the settings that the connection was made from."""

    version: int
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Connection | None = None
    used_at: float = 0.0
    checked_at: float = 0.0
    listed_at: float = 0.0
    failures: int = 0
    retry_at: float = 0.0
    fault: ServerFault | None = None
    list_changed: bool = False


class Pool:
    """Connections by server.

    load: returns a server's configuration.
    report: called with each listing and fault.
    """

    def __init__(self, load: Load, report: Report) -> None:
        self._load = load
        self._report = report
        self._slots: dict[UUID, _Slot] = {}

    async def connection(self, server_id: UUID, version: int) -> Connection:
        """Return an open connection made from these settings. Raises ServerFault, at once during a back-off."""
        slot = self._slots.setdefault(server_id, _Slot(version))
        async with slot.lock:
            slot.used_at = time.monotonic()
            if slot.version < version:
                await self._close(slot)
                slot.version, slot.failures, slot.retry_at = version, 0, 0.0
            known = slot.connection
            return known if known is not None and known.is_open else await self._open(server_id, slot)

    async def look_after(self, live: Mapping[UUID, int]) -> None:
        """Close idle, removed and outdated connections, ping the others, and list changed tools again.

        live: the enabled servers, with the versions of their settings.
        """
        for server_id, slot in list(self._slots.items()):
            try:
                await self._look_after(server_id, slot, live.get(server_id))
            except ServerFault as fault:
                await self._note_fault(server_id, slot, fault)
            except Exception:  # must not affect the other connections
                logger.exception("maintaining the connection to an MCP server failed")

    async def aclose(self) -> None:
        """Close all connections."""
        slots, self._slots = list(self._slots.values()), {}
        await asyncio.gather(*(self._close(slot) for slot in slots))

    async def _look_after(self, server_id: UUID, slot: _Slot, version: int | None) -> None:
        now, connection = time.monotonic(), slot.connection
        if slot.lock.locked() or connection is None:
            return
        if connection.is_busy:  # many servers answer nothing else meanwhile; the call has a time limit of its own
            slot.used_at = slot.checked_at = now
        if version is None or version > slot.version or now - slot.used_at > _IDLE_SECONDS or not connection.is_open:
            await self._close(slot)
        elif connection.is_busy:
            return
        elif slot.list_changed and now - slot.listed_at > _RELIST_SECONDS:
            slot.listed_at = now
            await _list_again(slot, connection)
            await self._report(server_id, connection, None)
        elif now - slot.checked_at > _PING_SECONDS:
            slot.checked_at = now
            await connection.check()

    async def _open(self, server_id: UUID, slot: _Slot) -> Connection:
        await self._close(slot)
        now = time.monotonic()
        if slot.fault and now < slot.retry_at:
            raise ServerFault(f"{slot.fault}; next attempt in {slot.retry_at - now:.0f} seconds")
        connection = Connection(await self._load(server_id), lambda: setattr(slot, "list_changed", True))
        try:
            await connection.open()
        except ServerFault as fault:
            await self._note_fault(server_id, slot, fault, connection)
            raise
        slot.connection, slot.failures, slot.fault = connection, 0, None
        slot.checked_at = slot.listed_at = time.monotonic()
        await self._report(server_id, connection, None)
        return connection

    async def _note_fault(
        self, server_id: UUID, slot: _Slot, fault: ServerFault, connection: Connection | None = None
    ) -> None:
        slot.failures += 1
        slot.fault, slot.retry_at = fault, time.monotonic() + min(2.0**slot.failures, _PAUSE_MAX_SECONDS)
        logger.warning("an MCP server failed (%d in a row): %s", slot.failures, fault)
        known = connection or slot.connection
        if known is not None:
            with suppress(Exception):  # raise the fault itself, not the failure to store it
                await self._report(server_id, known, fault)

    async def _close(self, slot: _Slot) -> None:
        connection, slot.connection = slot.connection, None
        if connection is not None:
            await connection.aclose()


async def _list_again(slot: _Slot, connection: Connection) -> None:
    """List the changed tools again; a failure is tried again later."""
    slot.list_changed = False
    try:
        await connection.list_tools()
    except ServerFault:
        slot.list_changed = True
        raise
