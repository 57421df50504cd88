"""Notifications of changed resources: in the GET stream of the older revision, as a request in the newer one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent

from agents_app.events import RUN_ENDS, RUN_STARTED
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from sessions_app.events import MESSAGE_RECEIVED
from sessions_app.identity.principal import Principal
from sessions_app.live_view.viewer import Viewer, cursor_now
from sessions_app.surfaces.mcp.calls import CLIENT_SESSION, ClientSession, Context, principal_of, scope_of
from sessions_app.surfaces.mcp.handlers import as_protocol_error
from sessions_app.surfaces.mcp.registry import find_resource
from tools_app.events import TOOL_COMPLETED

_MOST_WATCHED = 50
_CHANGES = {*RUN_ENDS, RUN_STARTED.name, MESSAGE_RECEIVED.name, TOOL_COMPLETED.name}


class _Watch:
    """A caller's subscription to a resource. A resource that does not change with a session never notifies."""

    def __init__(self, principal: Principal, uri: str) -> None:
        self._principal, self._uri = principal, uri
        found = find_resource(uri)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, "There is no such resource.", {"uri": uri})
        self._kind, self._variables = found

    async def check(self) -> Any:
        """Return the session that is followed, None for a resource without one. Raises MCPError."""
        try:
            if self._kind.find_session is None:
                await in_db(self._kind.read, self._principal, **self._variables)
                return None
            return await in_db(self._kind.find_session, self._principal, **self._variables)
        except Exception as error:
            raise as_protocol_error(error) from None

    async def run(self, publish: Callable[[str], Awaitable[None]]) -> None:
        """Publish the URI after each change, until the caller may no longer read the resource."""
        while session_id := await self.check():
            async with Viewer(session_id, await in_db(cursor_now, session_id)) as viewer:
                async for frame in viewer.frames():
                    if any(event.type in _CHANGES for event in frame):
                        await self.check()
                        await publish(self._uri)
                if not viewer.overflowed:
                    return


class _Listener:
    """The bus of one `subscriptions/listen` request, to which only its own watches publish."""

    def __init__(self) -> None:
        self._deliver: Callable[[ServerEvent], None] | None = None

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        self._deliver = listener
        return lambda: None

    async def publish(self, event: ServerEvent) -> None:
        if self._deliver:
            self._deliver(event)


async def listen(context: Context, params: types.SubscriptionsListenRequestParams) -> types.SubscriptionsListenResult:
    """Stream the changes of resources. Flags of changed lists are not honoured: this server announces none."""
    uris = list(params.notifications.resource_subscriptions or ())
    if len(uris) > _MOST_WATCHED:
        raise MCPError(types.INVALID_PARAMS, f"Subscribe to at most {_MOST_WATCHED} resources.")
    honoured = types.SubscriptionFilter(resource_subscriptions=uris or None)
    listener = _Listener()
    handler = ListenHandler(listener, max_subscriptions=1)
    watches = [_Watch(principal_of(context), uri) for uri in uris]
    for watch in watches:
        await watch.check()

    async def publish(uri: str) -> None:
        await listener.publish(ResourceUpdated(uri=uri))

    async with _running([watch.run(publish) for watch in watches]):
        return await handler(context, params.model_copy(update={"notifications": honoured}))


async def subscribe(context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
    """Notify the client's session of changes, in its GET stream. A request without a session has no such stream."""
    session, uri = _client_session(context), str(params.uri)
    watch = _Watch(principal_of(context), uri)
    await watch.check()
    if len(session.watches) >= _MOST_WATCHED and uri not in session.watches:
        raise MCPError(types.INVALID_PARAMS, f"Subscribe to at most {_MOST_WATCHED} resources.")
    session.watches[uri] = lambda: watch.run(context.session.send_resource_updated)
    session.has_changed.set()
    return types.EmptyResult()


async def unsubscribe(context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    session = _client_session(context)
    session.watches.pop(str(params.uri), None)
    session.has_changed.set()
    return types.EmptyResult()


def _client_session(context: Context) -> ClientSession:
    session: ClientSession | None = scope_of(context).get(CLIENT_SESSION)
    if session is None:
        raise MCPError(
            types.INVALID_REQUEST, "Subscriptions need a session: send `initialize`, and its Mcp-Session-Id."
        )
    return session


async def run_watches(session: ClientSession) -> None:
    """Run the watches of a session for as long as its GET stream is open."""
    while True:
        session.has_changed.clear()
        async with _running([begin() for begin in session.watches.values()]):
            await session.has_changed.wait()


@asynccontextmanager
async def _running(works: list[Any]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(_until_refused(work)) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_refused(work: Awaitable[None]) -> None:
    try:
        await work
    except (AppError, MCPError):
        return  # the caller may not read the resource any more
