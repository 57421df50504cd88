"""Server-sent events: the base class of consumers that stream a session, with keep-alive comments.

The format: https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any, ClassVar
from uuid import UUID

from audit_app.kernel.json_text import as_json
from sessions_app.live_view.cursor import Children, SessionEvent
from sessions_app.live_view.viewer import Viewer
from sessions_app.surfaces.base.consumers import LiveConsumer

KEEP_ALIVE_SECONDS = 15.0
_HEADERS = [
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-cache, no-transform"),
    ("X-Accel-Buffering", "no"),
]


def event_text(data: str, *, event: str = "", entry_id: str = "") -> str:
    """Return an event as it is sent. data: each line becomes a field of its own."""
    lines = [f"event: {event}"] if event else []
    lines += [f"id: {entry_id}"] if entry_id else []
    lines += [f"data: {line}" for line in data.split("\n")]
    return "\n".join(lines) + "\n\n"


class EventStreamConsumer(LiveConsumer):
    """A LiveConsumer whose `respond` may open a stream and send events in it."""

    children: ClassVar[Children] = Children.ASKING

    async def open_stream(self, headers: dict[str, str] | None = None) -> None:
        fields = [*_HEADERS, *(headers or {}).items()]
        await self.send({"type": "http.response.start", "status": 200, "headers": fields})
        # A server may hold the headers back until the first part of the body; the client waits for them.
        await self.send({"type": "http.response.body", "body": b"", "more_body": True})

    async def send_event(self, data: str, *, event: str = "", entry_id: str = "") -> None:
        """Send an event. data: each line becomes a field of its own."""
        await self.send_text(event_text(data, event=event, entry_id=entry_id))

    async def send_values(self, values: Iterable[Any], *, name_field: str = "") -> None:
        """Send JSON values as events, all in one write; nothing if there are none.

        name_field: the field of each that is the name of its event.
        """
        events = (event_text(as_json(value), event=value[name_field] if name_field else "") for value in values)
        if text := "".join(events):
            await self.send_text(text)

    async def send_text(self, text: str) -> None:
        """Send text that is framed already."""
        await self.send({"type": "http.response.body", "body": text.encode(), "more_body": True})

    async def close_stream(self) -> None:
        await self.send({"type": "http.response.body", "body": b""})

    async def watch(
        self,
        session_id: UUID,
        cursor: str,
        *,
        marks_now: bool = False,
        with_dead_claims: bool = False,
        open_children: Collection[UUID] | None = None,
    ) -> AsyncIterator[list[SessionEvent]]:
        """Yield the frames of a session after the cursor, without end.

        An open stream gets keep-alive comments in between. If the client reads too slowly and the viewer overflows,
        a new viewer resumes at the last cursor. marks_now, with_dead_claims, open_children: as for `Viewer`.
        """
        self.session_id = session_id
        while True:
            viewing = Viewer(
                session_id,
                cursor,
                marks_now=marks_now,
                with_dead_claims=with_dead_claims,
                children=self.children,
                open_children=open_children,
            )
            async with viewing as viewer:
                async for frame in self._alive(viewer.frames()):
                    cursor = frame[-1].cursor if frame else cursor
                    yield frame
                if not viewer.overflowed:
                    return
            open_children = None

    async def _alive(self, frames: AsyncIterator[list[SessionEvent]]) -> AsyncIterator[list[SessionEvent]]:
        coming: asyncio.Future[list[SessionEvent]] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(frames))
                done, _ = await asyncio.wait({coming}, timeout=KEEP_ALIVE_SECONDS)
                if not done:
                    if self._status:  # the stream is open
                        await self.send_text(": ping\n\n")
                    continue
                try:
                    frame = coming.result()
                except StopAsyncIteration:
                    return
                coming = None
                yield frame
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
