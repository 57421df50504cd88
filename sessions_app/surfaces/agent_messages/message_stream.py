"""Tells one client what happens in a session, from where it stands on: stored messages, and live text in between."""

from collections.abc import Sequence
from uuid import UUID

from audit_app.kernel.database import in_db
from sessions_app.events import STEP_CLOSING
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.models import Session
from sessions_app.surfaces.agent_messages import queries, resume_timestamps
from sessions_app.surfaces.agent_messages.projection import NO_WORDS
from sessions_app.surfaces.agent_messages.queries import ResumePosition
from sessions_app.surfaces.agent_messages.streaming_chunks import LIVE_TEXT, LiveText
from sessions_app.surfaces.agent_messages.wire_format import Compact, MessageType
from tools_app.events import TOOL_PROGRESS


class Telling:
    """cursor: from where the session is to be watched; what follows goes through `tell`, in order.

    place: where the client stands; came_back: it was here before, and may have live text from then.
    """

    def __init__(self, session: Session, place: ResumePosition, *, came_back: bool) -> None:
        self.session = session
        self.cursor = str(place.seq)
        self._projection = place.projection
        self._ts = place.ts
        self._passed = 0
        self._live = LiveText(place.mark, came_back=came_back)

    @property
    def session_id(self) -> UUID:
        return self.session.id

    async def tell(self, frame: Sequence[SessionEvent]) -> list[Compact]:
        """What a frame of facts adds."""
        kept = [fact for fact in frame if fact.ts is not None]
        words = await in_db(queries.load_words, kept) if kept else NO_WORDS
        # A step of which the client was sent nothing, closed in the same frame, comes whole with its message.
        closed = {(fact.run_id, fact.step) for fact in kept if fact.type in STEP_CLOSING}
        closed = {(run_id, step) for run_id, step in closed if not self._live.is_open(run_id, step)}
        said: list[Compact] = []
        for fact in frame:
            if fact.ts is not None:
                if fact.type in STEP_CLOSING:
                    said += self._live.close(fact, self._ts)
                said += self._projection.see(fact, words)
                self._ts, self._passed = fact.ts, 0
            elif fact.type in LIVE_TEXT and (fact.run_id, fact.step) not in closed:
                said += self._live.see(fact, self._ts, self._projection.workstream_of(fact.run_id))
            elif fact.type == TOOL_PROGRESS.name:
                said += self._pass_by(fact)
        return said

    def _pass_by(self, fact: SessionEvent) -> list[Compact]:
        message = self._projection.pass_by(fact)
        if message is None:
            return []
        self._passed += 1
        return [{**message, "ts": resume_timestamps.of_passing(self._ts, self._passed - 1)}]


def is_closing(message: Compact) -> bool:
    """Whether clients end their stream with it, if the run has ended."""
    if message["t"] == MessageType.TERMINATED:
        return True
    return message["t"] == MessageType.COMPLETE and "w" not in message
