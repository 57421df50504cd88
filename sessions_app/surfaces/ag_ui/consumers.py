"""The consumer of runs: a request is answered with the events of its run, to its end or until it waits for the client.

A client that closes its request does not stop the run, unless the request says so: it shows it with a request of the
same id.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.urls import path

from agents_app.events import RUN_ENDS
from audit_app.kernel.database import in_db
from sessions_app.events import MESSAGE_COMPLETED
from sessions_app.live_view.cursor import Children, SessionEvent
from sessions_app.surfaces.ag_ui.commands import (
    Accepted,
    AcceptedRun,
    RatedAnswer,
    Refused,
    ShownThread,
    accept,
    load_calls,
)
from sessions_app.surfaces.ag_ui.openapi import INPUT
from sessions_app.surfaces.ag_ui.requests import RunRequest
from sessions_app.surfaces.base.bodies import clean, parse_json
from sessions_app.surfaces.base.consumers import MessageConsumer
from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.base.openapi.operations import EVENTS, STOP_ON_DISCONNECT, Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import TEXT
from sessions_app.surfaces.base.page_view import PageView, open_page_view
from sessions_app.surfaces.base.sse import EventStreamConsumer

# Frames about what is around the conversation on the page.
_OF_THE_WINDOW = ("files", "agent")


class AgentRun(MessageConsumer, EventStreamConsumer):
    """POST /ag-ui/agents/<agent>."""

    methods = ("POST",)
    is_endless = True  # a run may wait for an approval of others
    children = Children.ALL

    @Operation(
        "Run an agent",
        body=INPUT,
        parameters=[STOP_ON_DISCONNECT],
        streams=True,
        errors=[404, 409, 422],
        answers={200: Answer("The events of AG-UI 1.0; docs/ag-ui.md lists them.", TEXT, EVENTS)},
    )
    async def respond(self, body: bytes) -> None:
        """Store the request of this body and stream its run."""
        request, accepted = await self.store(self._accept, body)
        await self.open_stream()
        ids = {"threadId": request.thread_id, "runId": request.run_id}
        match accepted:
            case Refused():
                refused = {"type": "RUN_ERROR", "message": accepted.message, "code": accepted.code}
                await self.send_values([{"type": "RUN_STARTED", **ids}, refused])
            case AcceptedRun():
                await self.send_values(accepted.projection.begin())
                await self._stream(accepted, await self._open_page(accepted.session_id, request))
            case ShownThread(session_id, run):
                await self.send_values(run.projection.begin() if run else [{"type": "RUN_STARTED", **ids}])
                page = await self._open_page(session_id, request) if session_id else None
                await self._send_page(await page.frames_of_thread(request.before) if page else [])
                if run is None:
                    await self.send_values([{"type": "RUN_FINISHED", **ids, "outcome": {"type": "success"}}])
                else:
                    await self._stream(run, page)
            case RatedAnswer():
                await self.send_values([{"type": "RUN_STARTED", **ids}])
                await self._show_rating(accepted, await self._open_page(accepted.session_id, request))
                await self.send_values([{"type": "RUN_FINISHED", **ids, "outcome": {"type": "success"}}])
        await self.close_stream()

    async def break_off(self, failure: HttpError) -> None:
        """Send the error as the last event."""
        await self.send_values([{"type": "RUN_ERROR", **self.error_body(failure)}])
        await super().break_off(failure)

    def _accept(self, body: bytes) -> tuple[RunRequest, Accepted]:
        agent_id = self.scope["url_route"]["kwargs"]["agent_id"]
        request, accepted = accept(self.principal, agent_id, lambda: clean(parse_json(body)))
        self.run_id = accepted.run_id if isinstance(accepted, AcceptedRun) else None
        return request, accepted

    async def _open_page(self, session_id: UUID, request: RunRequest) -> PageView | None:
        if not request.wants_page:
            return None
        return await in_db(open_page_view, lambda: self.principal, session_id)

    async def _show_rating(self, rated: RatedAnswer, page: PageView | None) -> None:
        if page:
            asks = rated.rating is not None and not rated.is_commented
            await self._send_page(page.frames_of_rating(rated.run_id, rated.rating, asks=asks))

    async def _stream(self, run: AcceptedRun, page: PageView | None) -> None:
        projection, has_caught_up, is_shown = run.projection, False, page is None
        end: SessionEvent | None = None
        async for frame in self.watch(run.session_id, run.cursor, marks_now=True):
            has_caught_up = has_caught_up or not frame
            for event in frame:
                if event.run_id == run.run_id and event.type in RUN_ENDS:
                    end = event
                is_shown = is_shown or (event.run_id == run.run_id and event.type == MESSAGE_COMPLETED.name)
                await self.send_values(projection.see(event) if end is None else [])
            if page and frame:
                await self._send_page(await page.frames_of(frame))
            if end and is_shown:
                await self.send_values(projection.end(end))
                return
            if end is None and has_caught_up and projection.is_paused:
                self.stops_on_disconnect = False  # the client may close when it has read the end
                calls = await in_db(load_calls, run.run_id, projection.returned) if projection.returned else []
                await self.send_values(projection.pause(calls))
                return

    async def _send_page(self, frames: Iterable[dict[str, Any]]) -> None:
        """Send what changes on the page of the client, for which it shows them."""
        acts = [frame for frame in frames if frame["do"] not in _OF_THE_WINDOW]
        if acts:
            await self.send_values([{"type": "CUSTOM", "name": "komand.page", "value": {"acts": acts}}])


routes = [path("ag-ui/agents/<str:agent_id>", AgentRun.as_asgi())]
