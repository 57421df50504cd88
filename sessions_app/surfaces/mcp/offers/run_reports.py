"""The events of a run as progress reports and log messages of a call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from agents_app.events import MODEL_FALLBACK, RUN_STARTED, RUN_WAITING
from audit_app.kernel.database import in_db
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import Viewer, cursor_now
from sessions_app.surfaces.mcp.calls import Call
from tools_app.events import PROGRESS_REPORTED, TOOL_COMPLETED, TOOL_FAILED, TOOL_PROGRESS, TOOL_REQUESTED


@asynccontextmanager
async def reporting(call: Call, session_id: UUID) -> AsyncIterator[None]:
    """Report the events of the session to the client while the context lasts, if the client receives any reports."""
    if not call.is_watched:
        yield
        return
    reports = asyncio.ensure_future(_report(call, session_id, await in_db(cursor_now, session_id)))
    try:
        yield
    finally:
        reports.cancel()
        await asyncio.gather(reports, return_exceptions=True)


async def _report(call: Call, session_id: UUID, cursor: str) -> None:
    while True:
        async with Viewer(session_id, cursor) as viewer:
            async for frame in viewer.frames():
                for event in frame:
                    cursor = event.cursor
                    if text := text_of(event):
                        await call.progress(message=text)
                        await call.log("warning" if event.type in _WARNINGS else "info", text)
            if not viewer.overflowed:
                return


def text_of(event: SessionEvent) -> str:
    """Return an event for people; empty for one that is not reported."""
    payload, who = event.payload, f"{event.workstream}: " if event.workstream else ""
    match event.type:
        case RUN_STARTED.name:
            return f"{who}The agent works."
        case RUN_WAITING.name:
            return f"{who}The agent waits: {payload['reason']}"
        case MODEL_FALLBACK.name:
            return f"{who}The model {payload['from']} could not answer; {payload['to']} is called instead."
        case TOOL_REQUESTED.name:
            return f"{who}{payload['tool']} is called."
        case TOOL_COMPLETED.name:
            return f"{who}{payload['tool']} has ended."
        case TOOL_FAILED.name:
            return f"{who}{payload['tool']} has failed: {payload['error']}"
        case PROGRESS_REPORTED.name | TOOL_PROGRESS.name:
            return f"{who}{payload['text']}"
    return ""


_WARNINGS = (MODEL_FALLBACK.name, TOOL_FAILED.name)
