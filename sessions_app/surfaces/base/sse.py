"""Server-sent events: the base class of consumers that stream a session, with keep-alive comments.

The format: https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.
"""

import asyncio
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator
from typing import Any, ClassVar
from uuid import UUID

from audit_app.kernel.errors import AppError
from sessions_app.identity.request_admission import check_again
from sessions_app.live_view.cursor import Children, SessionEvent
from sessions_app.live_view.viewer import Viewer
from sessions_app.surfaces.base.consumers import LiveConsumer
from sessions_app.surfaces.base.reauthentication import until_refused

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
    """A LiveConsumer whose `respond` may open a stream and send events in it.

    is_endless: the stream has no end of its own. The credential is checked again while it is open.
    """

    is_endless: ClassVar[bool] = False
    outlives_token = False  # as for `check_again`
    children: ClassVar[Children] = Children.ASKING

    def recheck(self) -> None:
        """Check the credential again. Synchronous. Raises AppError if it is no longer valid."""
        authorization = self.request.META.get("HTTP_AUTHORIZATION", "")
        check_again(self.scope, self.principal, authorization=authorization, outlives_token=self.outlives_token)

    async def open_stream(self, headers: dict[str, str] | None = None) -> None:
        fields = [*_HEADERS, *(headers or {}).items()]
        await self.send({"type": "http.response.start", "status": 200, "headers": fields})
        # A server may hold the headers back until the first part of the body; the client waits for them.
        await self.send({"type": "http.response.body", "body": b"", "more_body": True})

    async def send_event(self, data: str, *, event: str = "", entry_id: str = "") -> None:
        """Send an event. data: each line becomes a field of its own."""
        await self.send_text(event_text(data, event=event, entry_id=entry_id))

    async def send_text(self, text: str) -> None:
        """Send text that is framed already."""
        await self.send({"type": "http.response.body", "body": text.encode(), "more_body": True})

    async def close_stream(self) -> None:
        await self.send({"type": "http.response.body", "body": b""})

    async def watch(
        self, session_id: UUID, cursor: str, *, marks_now: bool = False, with_dead_claims: bool = False
    ) -> AsyncIterator[list[SessionEvent]]:
        """Yield the frames of a session after the cursor, without end.

        An open stream gets keep-alive comments in between. If the client reads too slowly and the viewer overflows,
        a new viewer resumes at the last cursor. marks_now, with_dead_claims: as for `Viewer`.
        Raises AppError if the credential of an endless stream is no longer valid.
        """
        while True:
            viewing = Viewer(
                session_id, cursor, marks_now=marks_now, with_dead_claims=with_dead_claims, children=self.children
            )
            async with viewing as viewer:
                async for frame in self._alive(viewer.frames()):
                    cursor = frame[-1].cursor if frame else cursor
                    yield frame
                if not viewer.overflowed:
                    return

    async def _alive(self, frames: AsyncIterator[list[SessionEvent]]) -> AsyncIterator[list[SessionEvent]]:
        coming: asyncio.Future[list[SessionEvent]] | None = None
        refusal: asyncio.Future[AppError] = asyncio.get_running_loop().create_future()
        if self.is_endless:
            refusal = asyncio.ensure_future(until_refused(self.recheck))
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(frames))
                either: set[asyncio.Future[Any]] = {coming, refusal}
                done, _ = await asyncio.wait(either, timeout=KEEP_ALIVE_SECONDS, return_when=FIRST_COMPLETED)
                if refusal in done:
                    raise refusal.result()
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
            waited_for: set[asyncio.Future[Any]] = {refusal, coming} if coming is not None else {refusal}
            for future in waited_for:
                future.cancel()
            await asyncio.gather(*waited_for, return_exceptions=True)
