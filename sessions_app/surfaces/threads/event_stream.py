"""The event stream of a thread: one message from where the client has it, or the next one; then it closes itself."""

from datetime import UTC, datetime
from uuid import UUID

from agents_app.events import RUN_ENDS, RUN_QUEUED
from audit_app.kernel.database import in_db
from sessions_app.access import access_session
from sessions_app.approvals import permissions
from sessions_app.events import SESSION_RENAMED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.sse import EventStreamConsumer
from sessions_app.surfaces.threads import delivered_marks, errors
from sessions_app.surfaces.threads.admission import admit
from sessions_app.surfaces.threads.projection import Event, MessageEvents, lines_of
from sessions_app.surfaces.threads.requests import StreamQuery
from sessions_app.surfaces.threads.resume import Resume, Target, find_target, is_asking
from tools_app.events import INPUT_REQUESTED
from tools_app.types import Decision

_DONE = "data: [DONE]\n\n"


class ThreadStream(EventStreamConsumer):
    """GET /v1/threads/<id>/stream."""

    admit = staticmethod(admit)
    is_endless = True

    def recheck(self) -> None:
        super().recheck()
        access_session(self.principal.user, self._thread_id)

    async def respond(self, body: bytes) -> None:
        asked = self.request.GET.dict()
        # A browser comes back with the address it had and the newer id in the header.
        asked["last_entry_id"] = self._headers.get("last-event-id") or asked.get("last_entry_id", "")
        query = errors.checked(StreamQuery(data=asked)).validated_data
        resume = Resume(query["last_message_id"], query["last_entry_id"])
        session_id, target, allowed_decisions = await in_db(self._find, resume)
        await self.open_stream()
        if target.is_gone:
            await self._send([Event("message_not_streaming", {"message_id": str(target.run_id)})])
        else:
            await _Telling(self, session_id, target, allowed_decisions, is_resumed=bool(resume.entry_id)).run()
        await self.close_stream()

    @property
    def _thread_id(self) -> str:
        return str(self.scope["url_route"]["kwargs"]["thread_id"])

    def _find(self, resume: Resume) -> tuple[UUID, Target, tuple[Decision, ...]]:
        """The session, the message to be told, and all that the reader may say to requests for approval."""
        session = access_session(self.principal.user, self._thread_id)
        allowed_decisions = (
            permissions.allowed_decisions(self.principal.user, session.owner_id) if self.principal.can_write else ()
        )
        return session.id, find_target(session, resume), allowed_decisions

    async def _send(self, events: list[Event]) -> None:
        if events:
            await self.send_text(lines_of(events))


class _Telling:
    """One connection's telling of one message. may_say: all that the reader may say to requests for approval;
    is_resumed: it says when everything missed has come."""

    def __init__(
        self,
        consumer: ThreadStream,
        session_id: UUID,
        target: Target,
        allowed_decisions: tuple[Decision, ...],
        *,
        is_resumed: bool,
    ) -> None:
        self._consumer = consumer
        self._allowed_decisions = allowed_decisions
        self._session_id = session_id
        self._target = target
        self._run_id = target.run_id
        self._message = self._message_events(target.run_id, target.number, target) if target.run_id else None
        self._is_replaying = is_resumed and target.run_id is not None
        self._replayed = 0

    async def run(self) -> None:
        """Tell until the message is over, or over for now."""
        async for frame in self._consumer.watch(self._session_id, self._target.cursor, marks_now=True):
            if frame:
                is_over = await self._tell(frame)
            else:
                is_over = False
                await self._end_replay()
            if is_over:
                await self._consumer.send_text(_DONE)
                return

    async def _tell(self, frame: list[SessionEvent]) -> bool:
        events: list[Event] = []
        is_over = False
        for fact in frame:
            events += self._events_of(fact)
            if fact.run_id is None or fact.run_id != self._run_id or self._message is None:
                continue
            if fact.type in RUN_ENDS:
                events += self._message.end(fact)
                is_over = True
                await in_db(delivered_marks.mark_delivered, fact.run_id)
            elif fact.type == INPUT_REQUESTED.name and await in_db(is_asking, self._session_id, fact.run_id):
                events += (ending := self._message.pause())
                is_over = bool(ending)
            if is_over:
                break
        self._replayed += len(events) if self._is_replaying else 0
        await self._send(events)
        if is_over:
            await self._end_replay()
        return is_over

    def _events_of(self, fact: SessionEvent) -> list[Event]:
        if fact.type == SESSION_RENAMED.name:
            title = {"thread_id": str(self._session_id), "title": fact.payload["title"]}
            return [Event("thread_title", title)]
        if self._message is None and fact.type == RUN_QUEUED.name and fact.run_id:
            self._run_id = fact.run_id
            self._message = self._message_events(fact.run_id, fact.payload["ordinal"] + 1)
        if self._message is None or fact.run_id != self._run_id:
            return []
        return self._message.see(fact)

    async def _end_replay(self) -> None:
        if self._is_replaying and self._message is not None:
            self._is_replaying = False
            last = str(self._message.last_place or "")
            told = {"replayed_count": self._replayed, "last_entry_id": last}
            await self._send([Event("replay_complete", told)])

    async def _send(self, events: list[Event]) -> None:
        if events:
            await self._consumer.send_text(lines_of(events))

    def _message_events(self, run_id: UUID, number: int, target: Target | None = None) -> MessageEvents:
        after = target.after if target else None
        return MessageEvents(run_id, number, lambda: datetime.now(UTC), after, self._allowed_decisions)
