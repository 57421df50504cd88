"""Server-sent events for every surface that streams: heads, events, signs of life, and watching a session meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

from sessions_app.surfaces.live import LiveConsumer
from sessions_app.watch import Seen, Viewer

KEEP_ALIVE_SECONDS = 15.0
_HEADERS = [
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-cache, no-transform"),
    ("X-Accel-Buffering", "no"),
]


class EventStreamConsumer(LiveConsumer):
    """A LiveConsumer whose `respond` may open a stream and send events in it."""

    async def open_stream(self, headers: dict[str, str] | None = None) -> None:
        fields = [*_HEADERS, *(headers or {}).items()]
        await self.send({"type": "http.response.start", "status": 200, "headers": fields})

    async def send_event(self, data: str, *, event: str = "", entry_id: str = "") -> None:
        """data: one line as a rule; each of several gets a field of its own."""
        lines = [f"event: {event}"] if event else []
        lines += [f"id: {entry_id}"] if entry_id else []
        lines += [f"data: {line}" for line in data.split("\n")]
        await self.send_text("\n".join(lines) + "\n\n")

    async def send_text(self, text: str) -> None:
        """Text that is framed already."""
        await self.send({"type": "http.response.body", "body": text.encode(), "more_body": True})

    async def close_stream(self) -> None:
        await self.send({"type": "http.response.body", "body": b""})

    async def watch(self, session_id: UUID, cursor: str, *, marks_now: bool = False) -> AsyncIterator[list[Seen]]:
        """What is to be seen after the cursor, for ever; in a stream, comments in between show that we are there. A
        client that reads too slowly is resumed where it stands: its own connection holds it back. marks_now: as of
        Viewer."""
        while True:
            async with Viewer(session_id, cursor, marks_now=marks_now) as viewer:
                async for frame in self._alive(viewer.frames()):
                    cursor = frame[-1].cursor if frame else cursor
                    yield frame
                if not viewer.overflowed:
                    return

    async def _alive(self, frames: AsyncIterator[list[Seen]]) -> AsyncIterator[list[Seen]]:
        coming: asyncio.Future[list[Seen]] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(frames))
                done, _ = await asyncio.wait({coming}, timeout=KEEP_ALIVE_SECONDS)
                if not done:
                    if self._status:  # else the answer is no stream, or has not begun
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
