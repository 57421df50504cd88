"""The consumers of requests that last: the events of the gateway, and a schedule that is run at once."""

import asyncio
import time
from typing import Any
from uuid import UUID

from django.conf import settings

from agents_app import selectors as agents
from agents_app.types import RunStatus, RunView
from audit_app.kernel.database import in_db
from sessions_app.access import access_runnable_network, access_schedule_by_id
from sessions_app.identity import rate_limits
from sessions_app.live_view.viewer import wait_until_ended
from sessions_app.schedules import ticks
from sessions_app.surfaces.base.consumers import LiveConsumer
from sessions_app.surfaces.base.openapi.operations import EVENTS, Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import BOOLEAN, COUNT, TEXT, record
from sessions_app.surfaces.base.sse import KEEP_ALIVE_SECONDS, EventStreamConsumer
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.zeroclaw import queries
from sessions_app.surfaces.zeroclaw.observed_events import Feed

_LOOK_SECONDS = 2.0
_RESULT = record(
    {
        **dict.fromkeys(("status", "job_id", "run_id", "output", "started_at", "finished_at"), TEXT),
        "success": BOOLEAN,
        "duration_ms": COUNT,
    }
)


class EventFeed(EventStreamConsumer):
    """GET /api/events."""

    is_endless = True

    @Operation(
        "Stream the events of your sessions",
        streams=True,
        answers={200: Answer("Events from now on; docs/zeroclaw.md lists them.", TEXT, EVENTS)},
    )
    async def get(self, body: bytes) -> None:
        feed = await in_db(Feed, self.principal.user)
        await self.open_stream()
        sent_at = time.monotonic()
        while True:
            events = await in_db(feed.read)
            await self.send_values(events)
            if events:
                sent_at = time.monotonic()
            elif time.monotonic() - sent_at > KEEP_ALIVE_SECONDS:
                await self.send_text(": ping\n\n")
                sent_at = time.monotonic()
            await asyncio.sleep(_LOOK_SECONDS)


class JobRun(LiveConsumer):
    """POST /api/cron/{id}/run: sends the message of a schedule, and waits for the answer."""

    methods = ("POST",)
    media_types = ()  # clients send no body

    @Operation("Run a schedule now, and wait for it", _RESULT, errors=[404, 409], streams=True)
    async def post(self, body: bytes) -> None:
        started = await in_db(self._start, self.scope["url_route"]["kwargs"]["task_id"])
        await wait_until_ended(started.conversation_id, started.id, settings.KOMAND_LONGEST_WAIT_SECONDS)
        await self.send_json(200, await in_db(self._result, started.id))

    def _start(self, task_id: str) -> RunView:
        user = self.principal.user
        schedule = access_schedule_by_id(user, task_id)
        rate_limits.take(rate_limits.chat_limit(), self.principal.actor)
        if schedule.network:  # the caller's key may extend to fewer agents than its user
            access_runnable_network(user, schedule.network)
        return agents.get_run(ticks.run_now(schedule, actor=self.principal.actor))

    def _result(self, run_id: UUID) -> dict[str, Any]:
        run = queries.read_run(run_id)
        success = run.status is RunStatus.COMPLETED
        ended_at = run.ended_at or run.created_at
        return {
            "status": "ok" if success else "error" if run.status.is_terminal else "running",
            "job_id": self.scope["url_route"]["kwargs"]["task_id"],
            "run_id": str(run_id),
            "success": success,
            "output": queries.read_answer(run_id)["full_response"] or run.error_message,
            "duration_ms": int((ended_at - run.created_at).total_seconds() * 1000),
            "started_at": iso(run.created_at),
            "finished_at": iso(ended_at),
        }
