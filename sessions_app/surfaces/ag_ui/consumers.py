"""The consumer of runs: a request is answered with the events of its run, to its end or until it waits for the client.

A client that closes its request does not stop the run: it shows it with a request of the same id.
"""

import json
from collections.abc import Iterable
from typing import Any

from django.urls import path

from agents_app.events import RUN_ENDS
from audit_app.kernel.database import in_db
from sessions_app.live_view.cursor import Children
from sessions_app.surfaces.ag_ui.commands import AcceptedRun, Refused, accept, load_calls
from sessions_app.surfaces.ag_ui.openapi import INPUT
from sessions_app.surfaces.ag_ui.requests import RunRequest
from sessions_app.surfaces.base.bodies import clean, parse_json
from sessions_app.surfaces.base.consumers import MessageConsumer
from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.base.openapi.operations import EVENTS, Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import TEXT
from sessions_app.surfaces.base.sse import EventStreamConsumer, event_text


class AgentRun(MessageConsumer, EventStreamConsumer):
    """POST /ag-ui/agents/<agent>."""

    methods = ("POST",)
    is_endless = True  # a run may wait for an approval of others
    children = Children.ALL

    @Operation(
        "Run an agent",
        body=INPUT,
        streams=True,
        errors=[404, 409, 422],
        answers={200: Answer("The events of AG-UI 1.0; docs/ag-ui.md lists them.", TEXT, EVENTS)},
    )
    async def respond(self, body: bytes) -> None:
        """Store the request of this body and stream its run."""
        request, accepted = await self.store(self._accept, body)
        await self.open_stream()
        if isinstance(accepted, Refused):
            ids = {"threadId": request.thread_id, "runId": request.run_id}
            await self._send([{"type": "RUN_STARTED", **ids}])
            await self._send([{"type": "RUN_ERROR", "message": accepted.message, "code": accepted.code}])
        else:
            await self._stream(accepted)
        await self.close_stream()

    async def break_off(self, failure: HttpError) -> None:
        """Send the error as the last event."""
        await self._send([{"type": "RUN_ERROR", **self.error_body(failure)}])
        await super().break_off(failure)

    def _accept(self, body: bytes) -> tuple[RunRequest, AcceptedRun | Refused]:
        agent_id = self.scope["url_route"]["kwargs"]["agent_id"]
        return accept(self.principal, agent_id, lambda: clean(parse_json(body)))

    async def _stream(self, run: AcceptedRun) -> None:
        projection, has_caught_up = run.projection, False
        await self._send(projection.begin())
        async for frame in self.watch(run.session_id, run.cursor, marks_now=True):
            has_caught_up = has_caught_up or not frame
            for event in frame:
                if event.run_id == run.run_id and event.type in RUN_ENDS:
                    await self._send(projection.end(event))
                    return
                await self._send(projection.see(event))
            if has_caught_up and projection.is_paused:
                calls = await in_db(load_calls, run.run_id, projection.returned) if projection.returned else []
                await self._send(projection.pause(calls))
                return

    async def _send(self, events: Iterable[dict[str, Any]]) -> None:
        if events:
            await self.send_text("".join(event_text(_as_json(event)) for event in events))


def _as_json(event: dict[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


routes = [path("ag-ui/agents/<str:agent_id>", AgentRun.as_asgi())]
