"""The tokens of a connection to an MCP server: sent with its requests, refreshed in time by one process for all.

Loads the SDK. Belongs to one event loop.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx2
from django.utils import timezone
from mcp.client.auth.utils import extract_field_from_www_auth

from audit_app.kernel.database import in_db, is_away
from audit_app.kernel.errors import AppError
from tools_app import conf
from tools_app.mcp_client import oauth_flow, server_authorization, servers
from tools_app.mcp_client.errors import NeedsAuthorization, ServerFault
from tools_app.mcp_client.oauth_http import FlowError
from tools_app.mcp_client.server_authorization import Stored

_BEFORE_END = timedelta(seconds=60)
_POLL_SECONDS = 0.2
_STORE_PAUSES = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_refreshes: set[asyncio.Task[Stored]] = set()  # held here until they end: nothing else may refer to them


class BearerTokens:
    """The tokens of one server. The lock is taken only to refresh them: a valid token is used without waiting."""

    def __init__(self, server_id: UUID, url: str) -> None:
        self._server_id, self._url = server_id, url
        self._held: Stored | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> str:
        """Return the token to send; empty if there is none. Raises ServerFault."""
        held = self._held or await self._load()
        if held.access_token and _is_due(held):
            async with self._lock:
                held = await self._renewed(held)
        return held.access_token

    async def replacement(self, refused: str) -> str:
        """Return another token than the one that the server has refused; empty if there is none. Raises ServerFault."""
        async with self._lock:
            held = await self._load()
            is_new = held.refreshed_at is not None and held.refreshed_at > timezone.now() - _BEFORE_END
            if held.access_token == refused and not is_new:
                held = await self._renewed(held, is_refused=True)
            return held.access_token if held.access_token != refused else ""

    async def refused(self, response: httpx2.Response) -> NeedsAuthorization:
        """Store that the server demands an authorization, or a wider one, and return the fault."""
        if response.status_code == 401:
            fault = NeedsAuthorization()
            await in_db(servers.store_fault, self._server_id, f"{fault}.", fault.state)
        else:
            fault = NeedsAuthorization(extract_field_from_www_auth(response, "scope") or "")
            await in_db(server_authorization.store_missing_scope, self._server_id, fault.scope, f"{fault}.")
        return fault

    async def _load(self) -> Stored:
        try:
            self._held = await in_db(server_authorization.load, self._server_id, self._url)
        except AppError as error:  # SealError
            raise ServerFault(f"its tokens cannot be read: {error.message}") from error
        return self._held

    async def _renewed(self, held: Stored, *, is_refused: bool = False) -> Stored:
        """Return tokens that replace these: refreshed here, or by another process meanwhile."""
        version = held.version
        for _ in range(int(server_authorization.LEASE_SECONDS / _POLL_SECONDS)):
            held = await self._load()
            if held.version != version or not held.refresh_token:
                return held
            if await in_db(server_authorization.claim_refresh, self._server_id, version):
                task = asyncio.create_task(_refresh(self._server_id, self._url, held))
                _refreshes.add(task)
                task.add_done_callback(_refreshes.discard)
                # The call may be cancelled; the refresh goes on, since the old refresh token may be void.
                self._held = await asyncio.shield(task)
                return self._held
            if not is_refused and not _is_over(held):
                return held
            await asyncio.sleep(_POLL_SECONDS)
        raise ServerFault("its tokens are not refreshed in time")


async def _refresh(server_id: UUID, url: str, held: Stored) -> Stored:
    """Refresh the tokens under the lease, and store the result. Raises ServerFault if none can be had for now."""
    try:
        tokens = await oauth_flow.refresh(held.endpoints, held.client, held.refresh_token, conf.service_targets())
    except oauth_flow.TokenRefused as refusal:
        why = f"{NeedsAuthorization()}. {refusal}"
        drops_client = refusal.code == "invalid_client"
        await in_db(server_authorization.store_refused, server_id, held.version, why, drops_client=drops_client)
        return await in_db(server_authorization.load, server_id, url)
    except FlowError as error:
        await in_db(server_authorization.release_refresh, server_id, held.version)
        if _is_over(held):
            raise ServerFault(f"its authorization could not be renewed: {error}") from error
        return held
    await _store(server_id, held.version, tokens)
    return await in_db(server_authorization.load, server_id, url)


async def _store(server_id: UUID, version: int, tokens: dict[str, Any]) -> None:
    """Store the tokens, also if the database is away for a while: the ones before them are void."""
    for pause in (*_STORE_PAUSES, None):
        try:
            await in_db(server_authorization.store_refreshed, server_id, version, tokens)
            return
        except Exception as error:
            if pause is None or not is_away(error):
                raise
            await asyncio.sleep(pause)


def _is_due(held: Stored) -> bool:
    """Return whether the token ends soon: within a minute, or a fifth of its lifetime if that is less."""
    if held.expires_at is None:
        return False
    lifetime = held.expires_at - (held.refreshed_at or held.expires_at)
    return timezone.now() >= held.expires_at - min(_BEFORE_END, lifetime / 5)


def _is_over(held: Stored) -> bool:
    now: datetime = timezone.now()
    return held.expires_at is not None and now >= held.expires_at
