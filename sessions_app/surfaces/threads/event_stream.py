"""The event stream of a thread: server-sent events of one message, after which the stream closes."""

from datetime import UTC, datetime
from uuid import UUID

from agents_app.events import RUN_ENDS, RUN_QUEUED
from audit_app.kernel.database import in_db
from sessions_app.access import access_session
from sessions_app.approvals import permissions
from sessions_app.events import SESSION_RENAMED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.openapi.operations import EVENTS, Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import TEXT
from sessions_app.surfaces.base.sse import EventStreamConsumer
from sessions_app.surfaces.threads import delivered_marks, errors
from sessions_app.surfaces.threads.admission import admit
from sessions_app.surfaces.threads.event_ids import EventPosition
from sessions_app.surfaces.threads.projection import MessageEvents, ThreadEvent, lines_of
from sessions_app.surfaces.threads.requests import StreamQuery
from sessions_app.surfaces.threads.resume import ResumePoint, StreamTarget, find_target, is_waiting_for_answer
from tools_app.events import INPUT_REQUESTED
from tools_app.types import Decision

_DONE = "data: [DONE]\n\n"


class ThreadStream(EventStreamConsumer):
    """GET /v1/threads/<id>/stream."""

    admit = staticmethod(admit)
    is_endless = True

    _session_id: UUID
    _allowed_decisions: tuple[Decision, ...] = ()
    _run_id: UUID | None = None
    _message: MessageEvents | None = None  # of the run, once that is known
    _is_replaying = False
    _replayed = 0  # number of events

    @Operation(
        "Stream the answer",
        query=StreamQuery,
        streams=True,
        answers={200: Answer("The events of docs/threads.md.", TEXT, EVENTS)},
    )
    async def respond(self, body: bytes) -> None:
        given = self.request.GET.dict()
        # A browser reconnects with the same URL and the newer id in this header (HTML standard, section 9.2.4).
        given["last_entry_id"] = self._headers.get("last-event-id") or given.get("last_entry_id", "")
        query = errors.checked(StreamQuery(data=given)).validated_data
        target = await in_db(self._find, ResumePoint(query["last_message_id"], query["last_entry_id"]))
        await self.open_stream()
        if target.is_gone:
            await self._send([ThreadEvent("message_not_streaming", {"message_id": str(target.run_id)})])
        else:
            if target.run_id:
                self._start_message(target.run_id, target.number, target.after)
                self._is_replaying = bool(query["last_entry_id"])
            await self._stream(target.cursor)
        await self.close_stream()

    @property
    def _thread_id(self) -> str:
        return str(self.scope["url_route"]["kwargs"]["thread_id"])

    def _find(self, resume: ResumePoint) -> StreamTarget:
        session = access_session(self.principal.user, self._thread_id)
        self._session_id = session.id
        if self.principal.can_write:
            self._allowed_decisions = permissions.allowed_decisions(self.principal.user, session.owner_id)
        return find_target(session, resume)

    def _start_message(self, run_id: UUID, number: int, after: EventPosition | None = None) -> None:
        self._run_id = run_id
        self._message = MessageEvents(run_id, number, lambda: datetime.now(UTC), after, self._allowed_decisions)

    async def _stream(self, cursor: str) -> None:
        """Send events until the message ends, or pauses for the user's answer to a question."""
        async for frame in self.watch(self._session_id, cursor, marks_now=True):
            if not frame:
                await self._end_replay()
            elif await self._send_frame(frame):
                await self._end_replay()
                await self.send_text(_DONE)
                return

    async def _send_frame(self, frame: list[SessionEvent]) -> bool:
        """Send the events of a frame. Return whether the message has ended or pauses."""
        events: list[ThreadEvent] = []
        is_over = False
        for event in frame:
            events += self._events_of(event)
            if event.run_id is None or event.run_id != self._run_id or self._message is None:
                continue
            if event.type in RUN_ENDS:
                events += self._message.end(event)
                is_over = True
                await in_db(delivered_marks.mark_delivered, event.run_id)
            elif event.type == INPUT_REQUESTED.name and await in_db(
                is_waiting_for_answer, self._session_id, event.run_id
            ):
                events += (ending := self._message.pause())
                is_over = bool(ending)
            if is_over:
                break
        self._replayed += len(events) if self._is_replaying else 0
        await self._send(events)
        return is_over

    def _events_of(self, event: SessionEvent) -> list[ThreadEvent]:
        if event.type == SESSION_RENAMED.name:
            title = SESSION_RENAMED.payload(event)["title"]
            return [ThreadEvent("thread_title", {"thread_id": str(self._session_id), "title": title})]
        if self._message is None and event.type == RUN_QUEUED.name and event.run_id:
            self._start_message(event.run_id, RUN_QUEUED.payload(event)["ordinal"] + 1)
        if self._message is None or event.run_id != self._run_id:
            return []
        return self._message.see(event)

    async def _end_replay(self) -> None:
        if self._is_replaying and self._message is not None:
            self._is_replaying = False
            last = str(self._message.last_position or "")
            data = {"replayed_count": self._replayed, "last_entry_id": last}
            await self._send([ThreadEvent("replay_complete", data)])

    async def _send(self, events: list[ThreadEvent]) -> None:
        if events:
            await self.send_text(lines_of(events))
