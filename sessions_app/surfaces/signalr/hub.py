"""One client's connection to the hub, whatever transport carries it: its methods, and the sessions it is told of.

Methods, by name in any case: `SendMessage(agentId, content, idempotencyKey?)`, `StreamMessage(agentId, content)` (a
stream), `Resume(sessionId, lastEventId?)`, `Leave(sessionId)`, `Cancel(sessionId, messageId?)`,
`DecideApproval(approvalId, decision, note?)`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from uuid import UUID

from agents_app.events import RUN_ENDS
from audit_app.kernel import context
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, InvalidInput, Unavailable
from sessions_app.identity.principal import Principal
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import Viewer
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.intake_limit import store_message
from sessions_app.surfaces.signalr import commands, protocol
from sessions_app.surfaces.signalr.commands import Watched
from sessions_app.surfaces.signalr.projection import HubProjection
from sessions_app.surfaces.signalr.protocol import Record

logger = logging.getLogger(__name__)

PING_SECONDS = 15.0
MOST_SESSIONS = 50  # that one connection may be told of
_MOST_CALLS = 20  # of a client's that are worked on at once

Send = Callable[[str], Awaitable[None]]


class Hub:
    """`receive` takes what the client sends; `closed` is set when the connection has to end. send: writes one frame;
    a transport may put its own in its place."""

    def __init__(self, principal: Principal, send: Send) -> None:
        self.closed = asyncio.Event()
        self._principal = principal
        self.send = send
        self._reader = protocol.RecordReader()
        self._has_shaken = False
        self._watches: dict[UUID, asyncio.Task[None]] = {}
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pings: asyncio.Task[None] | None = None

    async def receive(self, text: str) -> None:
        """Records of the client, in the order of their arrival."""
        try:
            for record in self._reader.feed(text):
                await self._take(record)
        except AppError as error:
            await self.close(error.message)

    async def close(self, error: str = "", *, allow_reconnect: bool = False) -> None:
        """Say goodbye and end the connection."""
        if not self.closed.is_set():
            await self._tell(protocol.close(error, allow_reconnect=allow_reconnect))
            self.closed.set()

    async def end(self) -> None:
        """The connection is gone: stop everything that was done for it. Runs go on."""
        self.closed.set()
        tasks = [*self._watches.values(), *self._calls.values(), *self._tasks, *filter(None, [self._pings])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, record: Record) -> None:
        if not self._has_shaken:
            problem = protocol.check_handshake(record)
            await self._tell(protocol.handshake(problem))
            self._has_shaken = not problem
            if problem:
                self.closed.set()
            else:
                self._pings = asyncio.create_task(self._ping())
            return
        match record.get("type"):
            case protocol.INVOCATION:
                self._begin(record, self._invoke(record))
            case protocol.STREAM_INVOCATION:
                self._begin(record, self._stream(record))
            case protocol.CANCEL_INVOCATION:
                if task := self._calls.get(str(record.get("invocationId"))):
                    task.cancel()
            case protocol.CLOSE:
                self.closed.set()

    def _begin(self, record: Record, work: Coroutine[Any, Any, None]) -> None:
        if len(self._calls) + len(self._tasks) >= _MOST_CALLS:
            work.close()
            raise InvalidInput("Too many calls at once.", code="too_many_calls")
        task = asyncio.create_task(work)
        invocation_id = record.get("invocationId")
        if invocation_id is None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._calls[str(invocation_id)] = task
            task.add_done_callback(lambda _: self._calls.pop(str(invocation_id), None))

    async def _invoke(self, record: Record) -> None:
        invocation_id = record.get("invocationId")
        try:
            result = await self._call(record)
        except Exception as error:
            if invocation_id is not None:
                await self._tell(protocol.completion(invocation_id, error=http_error_of(error).message))
            return
        if invocation_id is not None:
            await self._tell(protocol.completion(invocation_id, result=result))

    async def _call(self, record: Record) -> Any:
        method = _METHODS.get(str(record.get("target")).lower())
        if method is None:
            raise InvalidInput(f"The hub has no method {record.get('target')!r}.", code="unknown_method")
        arguments = method.arguments_of(record)
        context.actor.set(self._principal.actor)
        return await method.work(self, *arguments)

    # Methods.

    async def send_message(self, *arguments: Any) -> dict[str, Any]:
        watched = await store_message(commands.send_message, self._principal, *arguments)
        self._watch(watched)
        return {"sessionId": watched.key, "messageId": str(watched.run_id)}

    async def resume(self, *arguments: Any) -> dict[str, Any]:
        watched = await in_db(commands.find_watched, self._principal, *arguments)
        viewer = Viewer(watched.session_id, watched.cursor)  # refuses what is no cursor of ours
        del viewer
        self._watch(watched, anew=True)
        return {"sessionId": watched.key, "agentId": watched.agent_id}

    async def leave(self, session_id: Any) -> bool:
        watched = await in_db(commands.find_watched, self._principal, session_id)
        task = self._watches.pop(watched.session_id, None)
        if task:
            task.cancel()
        return task is not None

    async def cancel(self, *arguments: Any) -> int:
        return await in_db(commands.cancel, self._principal, *arguments)

    async def decide_approval(self, *arguments: Any) -> dict[str, Any]:
        return await in_db(commands.decide, self._principal, *arguments)

    async def _stream(self, record: Record) -> None:
        """`StreamMessage`: the tokens as items of a stream, ended by the whole message. Dropping it stops nothing."""
        invocation_id = str(record.get("invocationId"))
        try:
            if str(record.get("target")).lower() != "streammessage":
                raise InvalidInput(f"The hub has no stream {record.get('target')!r}.", code="unknown_method")
            arguments = _METHODS["sendmessage"].arguments_of(record)
            context.actor.set(self._principal.actor)
            watched = await store_message(commands.send_message, self._principal, *arguments)
            await self._stream_run(invocation_id, watched)
            await self._tell(protocol.completion(invocation_id))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await self._tell(protocol.completion(invocation_id, error=http_error_of(error).message))

    async def _stream_run(self, invocation_id: str, watched: Watched) -> None:
        """To its end. A client that reads too slowly is held back by its own connection and goes on where it stands."""
        projection, cursor = HubProjection(watched.key, watched.agent_id, watched.allowed_decisions), watched.cursor
        while True:
            async with Viewer(watched.session_id, cursor) as viewer:
                async for facts in viewer.frames():
                    for fact in facts:
                        if fact.run_id != watched.run_id:
                            continue
                        for target, arguments in await self._calls_of(projection, watched, fact):
                            item = {"event": target, "arguments": arguments}
                            await self._tell(protocol.stream_item(invocation_id, item))
                        if fact.type in RUN_ENDS:
                            return
                    cursor = facts[-1].cursor
                if not viewer.overflowed:
                    raise Unavailable("The server ends. Resume the session to see the rest.", code="restarting")

    # Being told.

    def _watch(self, watched: Watched, *, anew: bool = False) -> None:
        """Tell the client of the session from now on; a session it is told of already goes on as it is."""
        running = self._watches.get(watched.session_id)
        if running and not running.done():
            if not anew:
                return
            running.cancel()
        self._watches = {session_id: task for session_id, task in self._watches.items() if not task.done()}
        if len(self._watches) >= MOST_SESSIONS:
            raise InvalidInput(f"A connection is told of at most {MOST_SESSIONS} sessions.", code="too_many_sessions")
        self._watches[watched.session_id] = asyncio.create_task(self._follow(watched))

    async def _follow(self, watched: Watched) -> None:
        projection = HubProjection(watched.key, watched.agent_id, watched.allowed_decisions)
        recall = projection.recall if watched.was_here else None
        try:
            async with Viewer(watched.session_id, watched.cursor, recall=recall) as viewer:
                async for facts in viewer.frames():
                    records = [
                        protocol.invocation(target, *arguments)
                        for fact in facts
                        for target, arguments in await self._calls_of(projection, watched, fact)
                    ]
                    if records:
                        await self._tell(*records)
            await self.close("You read too slowly. Come back and resume.", allow_reconnect=True)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("a hub connection was not told of session %s", watched.session_id)
            await self.close("Something went wrong here. Come back and resume.", allow_reconnect=True)

    async def _calls_of(
        self, projection: HubProjection, watched: Watched, fact: SessionEvent
    ) -> list[tuple[str, list[Any]]]:
        calls = projection.calls(fact)
        if fact.type in RUN_ENDS and fact.run_id is not None:
            calls += projection.ending(fact.run_id, fact, await in_db(commands.read_message, watched, fact.run_id))
        return calls

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            await self._tell(protocol.ping())

    async def _tell(self, *records: Record) -> None:
        await self.send(protocol.frame(*records))


class _Method:
    """A method of the hub. takes: its arguments, for people."""

    def __init__(self, work: Callable[..., Awaitable[Any]], takes: str, fewest: int, most: int) -> None:
        self.work, self.takes, self.fewest, self.most = work, takes, fewest, most

    def arguments_of(self, record: Record) -> list[Any]:
        """Raises InvalidInput when there are too few or too many."""
        arguments = record.get("arguments", [])
        if not isinstance(arguments, list) or not self.fewest <= len(arguments) <= self.most:
            raise InvalidInput(f"{record.get('target')} takes {self.takes}.", code="invalid_argument")
        return arguments


_METHODS = {
    "sendmessage": _Method(Hub.send_message, "(agentId, content, idempotencyKey?)", 2, 3),
    "resume": _Method(Hub.resume, "(sessionId, lastEventId?)", 1, 2),
    "leave": _Method(Hub.leave, "(sessionId)", 1, 1),
    "cancel": _Method(Hub.cancel, "(sessionId, messageId?)", 1, 2),
    "decideapproval": _Method(Hub.decide_approval, "(approvalId, decision, note?)", 2, 3),
}
