"""One client's connection to the hub over any transport: its methods, and the sessions that it follows.

Implements "Invocations", "Non-Blocking Invocations", "Streaming" and "Ping" of HubProtocol.md of ASP.NET Core. Names of
methods are not case-sensitive: `SendMessage(agentId, content, idempotencyKey?, attachments?)`, `StreamMessage` (a
stream, with the same arguments), `Resume(sessionId, lastEventId?)`, `Leave(sessionId)`,
`Cancel(sessionId, messageId?)`, `DecideApproval(approvalId, decision, note?)`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents_app.events import RUN_ENDS
from audit_app.kernel import context
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, InvalidInput, Unavailable
from audit_app.kernel.futures import cancel_all
from sessions_app.identity.principal import Principal
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import Viewer
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.intake_limit import store_message
from sessions_app.surfaces.signalr import commands, protocol
from sessions_app.surfaces.signalr.commands import HubSubscription
from sessions_app.surfaces.signalr.projection import Call, HubProjection
from sessions_app.surfaces.signalr.protocol import Record

logger = logging.getLogger(__name__)

PING_SECONDS = 15.0
MOST_SESSIONS = 50  # that one connection may follow
_MOST_CALLS = 20  # concurrent calls of one client

Send = Callable[[str], Awaitable[None]]


class Hub:
    """The server side of one connection.

    closed: set when the transport has to end the connection.
    principal: by which the newest request was admitted. The connection replaces it.
    send: writes one frame. A transport may replace it.
    has_positions: whether typing and tokens carry their position, which the client asks for by `positions=true`.
    """

    has_positions = False

    def __init__(self, principal: Principal, send: Send) -> None:
        self.closed = asyncio.Event()
        self.principal = principal
        self.send = send
        self._reader = protocol.RecordReader()
        self._is_handshake_done = False
        self._subscriptions: dict[UUID, asyncio.Task[None]] = {}
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._non_blocking: set[asyncio.Task[None]] = set()
        self._pings: asyncio.Task[None] | None = None

    async def receive(self, text: str) -> None:
        """Handle the client's records, in their order."""
        try:
            for record in self._reader.feed(text):
                await self._handle(record)
        except AppError as error:
            await self.close(error.message)

    async def close(self, error: str = "", *, allow_reconnect: bool = False) -> None:
        """Send a Close message and end the connection."""
        if not self.closed.is_set():
            await self._send(protocol.close(error, allow_reconnect=allow_reconnect))
            self.closed.set()

    async def end(self) -> None:
        """Cancel all work for a connection that has ended. Runs of its messages continue."""
        self.closed.set()
        tasks = [*self._subscriptions.values(), *self._calls.values(), *self._non_blocking]
        await cancel_all([*tasks, *([self._pings] if self._pings else [])])

    async def _shake_hands(self, record: Record) -> None:
        error = protocol.handshake_error(record)
        await self._send(protocol.handshake_response(error))
        if error:
            self.closed.set()
            return
        self._is_handshake_done = True
        self._pings = asyncio.create_task(self._ping())

    async def _handle(self, record: Record) -> None:
        if not self._is_handshake_done:
            await self._shake_hands(record)
            return
        match record.get("type"):
            case protocol.INVOCATION:
                self._start(record, self._invoke(record))
            case protocol.STREAM_INVOCATION:
                self._start(record, self._stream(record))
            case protocol.CANCEL_INVOCATION:
                await self._cancel_call(str(record.get("invocationId")))
            case protocol.CLOSE:
                self.closed.set()

    async def _cancel_call(self, invocation_id: str) -> None:
        """Cancel a call and complete it after its last item, as the protocol requires."""
        if task := self._calls.get(invocation_id):
            task.cancel()
            await asyncio.wait({task})  # until a database call that has begun is finished
            if task.cancelled():
                await self._send(protocol.completion(invocation_id))

    def _start(self, record: Record, work: Coroutine[Any, Any, None]) -> None:
        if len(self._calls) + len(self._non_blocking) >= _MOST_CALLS:
            work.close()
            raise InvalidInput("Too many concurrent calls.", code="too_many_calls")
        task = asyncio.create_task(work)
        invocation_id = record.get("invocationId")
        if invocation_id is None:
            self._non_blocking.add(task)
            task.add_done_callback(self._non_blocking.discard)
        else:
            self._calls[str(invocation_id)] = task
            task.add_done_callback(lambda _: self._calls.pop(str(invocation_id), None))

    async def _invoke(self, record: Record) -> None:
        try:
            outcome = {"result": await self._call(record)}
        except Exception as error:
            outcome = {"error": http_error_of(error).message}
        if (invocation_id := record.get("invocationId")) is not None:
            await self._send(protocol.completion(invocation_id, **outcome))

    async def _call(self, record: Record) -> Any:
        method = _METHODS.get(str(record.get("target")).lower())
        if method is None:
            raise InvalidInput(f"The hub has no method {record.get('target')!r}.", code="unknown_method")
        arguments = method.arguments_of(record)
        context.actor.set(self.principal.actor)
        return await method.work(self, *arguments)

    async def send_message(self, *arguments: Any) -> dict[str, Any]:
        subscription = await store_message(commands.send_message, self.principal, *arguments)
        self._subscribe(subscription)
        return {"sessionId": subscription.key, "messageId": str(subscription.run_id)}

    async def resume(self, *arguments: Any) -> dict[str, Any]:
        subscription = await in_db(commands.find_subscription, self.principal, *arguments)
        Viewer(subscription.session_id, subscription.cursor)  # raises InvalidInput for a malformed cursor
        self._subscribe(subscription, replace=True)
        return {"sessionId": subscription.key, "agentId": subscription.agent_id}

    async def leave(self, session_id: Any) -> bool:
        subscription = await in_db(commands.find_subscription, self.principal, session_id)
        task = self._subscriptions.pop(subscription.session_id, None)
        if task:
            task.cancel()
        return task is not None

    async def cancel(self, *arguments: Any) -> int:
        return await in_db(commands.cancel, self.principal, *arguments)

    async def list_workstreams(self, *arguments: Any) -> list[dict[str, Any]]:
        return await in_db(commands.list_workstreams, self.principal, *arguments)

    async def message_run(self, *arguments: Any) -> str:
        return await in_db(commands.message_run, self.principal, *arguments)

    async def steer_run(self, *arguments: Any) -> str:
        return await in_db(commands.steer_run, self.principal, *arguments)

    async def decide_approval(self, *arguments: Any) -> dict[str, Any]:
        return await in_db(commands.decide, self.principal, *arguments)

    async def _stream(self, record: Record) -> None:
        """Run `StreamMessage`: send the calls of one run as items. Cancelling the stream does not cancel the run."""
        invocation_id = str(record.get("invocationId"))
        try:
            if str(record.get("target")).lower() != "streammessage":
                raise InvalidInput(f"The hub has no stream {record.get('target')!r}.", code="unknown_method")
            arguments = _METHODS["sendmessage"].arguments_of(record)
            context.actor.set(self.principal.actor)
            subscription = await store_message(commands.send_message, self.principal, *arguments)
            await self._stream_run(invocation_id, subscription)
            await self._send(protocol.completion(invocation_id))
        except Exception as error:
            await self._send(protocol.completion(invocation_id, error=http_error_of(error).message))

    async def _stream_run(self, invocation_id: str, subscription: HubSubscription) -> None:
        """Send the items up to the end of the run. A viewer that overflows is reopened at the client's position."""
        projection, cursor = self._projection_of(subscription), subscription.cursor
        while True:
            async with Viewer(subscription.session_id, cursor) as viewer:
                async for events in viewer.frames():
                    for event in events:
                        if event.run_id != subscription.run_id:
                            continue
                        for target, arguments in await self._calls_of(projection, subscription, event):
                            item = {"event": target, "arguments": arguments}
                            await self._send(protocol.stream_item(invocation_id, item))
                        if event.type in RUN_ENDS:
                            return
                    cursor = events[-1].cursor
                if not viewer.overflowed:
                    message = "The server is shutting down. Resume the session to see the rest."
                    raise Unavailable(message, code="restarting")

    def _subscribe(self, subscription: HubSubscription, *, replace: bool = False) -> None:
        """Follow the session from now on. replace: also if the connection follows it already."""
        running = self._subscriptions.get(subscription.session_id)
        if running and not running.done():
            if not replace:
                return
            running.cancel()
        self._subscriptions = {key: task for key, task in self._subscriptions.items() if not task.done()}
        if len(self._subscriptions) >= MOST_SESSIONS:
            message = f"A connection can follow at most {MOST_SESSIONS} sessions. Leave one first."
            raise InvalidInput(message, code="too_many_sessions")
        self._subscriptions[subscription.session_id] = asyncio.create_task(self._follow(subscription))

    async def _follow(self, subscription: HubSubscription) -> None:
        projection = self._projection_of(subscription)
        recall = projection.recall if subscription.is_resumed else None
        try:
            async with Viewer(subscription.session_id, subscription.cursor, recall=recall) as viewer:
                async for events in viewer.frames():
                    records = [
                        protocol.invocation(target, *arguments)
                        for event in events
                        for target, arguments in await self._calls_of(projection, subscription, event)
                    ]
                    if records:
                        await self._send(*records)
            await self.close("The client reads too slowly. Reconnect and resume.", allow_reconnect=True)
        except Exception:
            logger.exception("cannot send events of session %s to a hub connection", subscription.session_id)
            await self.close("Internal error. Reconnect and resume.", allow_reconnect=True)

    async def _calls_of(
        self, projection: HubProjection, subscription: HubSubscription, event: SessionEvent
    ) -> list[Call]:
        calls = projection.calls(event)
        if event.type in RUN_ENDS and event.run_id is not None:
            message = await in_db(commands.read_message, subscription, event.run_id)
            calls += projection.end(event.run_id, event, message)
        return calls

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            await self._send(protocol.ping())

    async def _send(self, *records: Record) -> None:
        await self.send(protocol.frame(*records))

    def _projection_of(self, subscription: HubSubscription) -> HubProjection:
        allowed, has_positions = subscription.allowed_decisions, self.has_positions
        return HubProjection(subscription.key, subscription.agent_id, allowed, has_positions=has_positions)


@dataclass(frozen=True)
class _Method:
    """A method of the hub. signature: for error messages."""

    work: Callable[..., Awaitable[Any]]
    signature: str
    fewest: int
    most: int

    def arguments_of(self, record: Record) -> list[Any]:
        """Return the arguments of a call. Raises InvalidInput if there are too few or too many."""
        arguments = record.get("arguments", [])
        if not isinstance(arguments, list) or not self.fewest <= len(arguments) <= self.most:
            raise InvalidInput(f"{record.get('target')} takes {self.signature}.", code="invalid_argument")
        return arguments


_METHODS = {
    "sendmessage": _Method(Hub.send_message, "(agentId, content, idempotencyKey?, attachments?)", 2, 4),
    "resume": _Method(Hub.resume, "(sessionId, lastEventId?)", 1, 2),
    "leave": _Method(Hub.leave, "(sessionId)", 1, 1),
    "cancel": _Method(Hub.cancel, "(sessionId, messageId?)", 1, 2),
    "listworkstreams": _Method(Hub.list_workstreams, "(sessionId)", 1, 1),
    "messagerun": _Method(Hub.message_run, "(runId, content, idempotencyKey?)", 2, 3),
    "steerrun": _Method(Hub.steer_run, "(runId, command, text?, idempotencyKey?)", 2, 4),
    "decideapproval": _Method(Hub.decide_approval, "(approvalId, decision, note?)", 2, 3),
}
