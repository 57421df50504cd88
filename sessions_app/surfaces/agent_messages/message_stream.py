"""The messages of one client's stream: stored ones, and live text in between."""

from collections.abc import Sequence

from agents_app.events import RUN_ENDS
from audit_app.kernel.database import in_db
from sessions_app.events import STEP_CLOSING
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.models import Session
from sessions_app.surfaces.agent_messages import queries, resume_timestamps
from sessions_app.surfaces.agent_messages.projection import NO_TEXT
from sessions_app.surfaces.agent_messages.queries import TimelineReader
from sessions_app.surfaces.agent_messages.streaming_chunks import LIVE_TEXT, LiveText
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType, Compact
from tools_app.events import TOOL_PROGRESS


class MessageStream:
    """The messages of a session after a reader's position.

    cursor: where to subscribe to the session; its frames go through `messages`, in order.
    open_children: the child runs that are open there.
    has_resumed: whether the client may have live text from an earlier connection.
    """

    def __init__(self, session: Session, reader: TimelineReader, *, has_resumed: bool) -> None:
        self.session = session
        self.cursor = str(reader.seq)
        self._projection = reader.projection
        self._ts = reader.ts
        self._transient_count = 0  # of messages without storage since the last stored event
        self.open_children = reader.projection.open_children
        has_children = reader.projection.has_children
        self._live = LiveText(reader.received, has_resumed=has_resumed, has_children=has_children)

    async def messages(self, frame: Sequence[SessionEvent]) -> list[Compact]:
        """Return the messages of a frame."""
        kept = [event for event in frame if event.ts is not None]
        texts = await in_db(queries.load_texts, kept) if kept else NO_TEXT
        # The stored message of a step that closes in this frame replaces its chunks, if the client has none yet.
        closed = {
            (event.run_id, event.step) for event in kept if event.type in STEP_CLOSING if not self._live.is_open(event)
        }
        found: list[Compact] = []
        for event in frame:
            if event.ts is not None:
                if event.type in STEP_CLOSING:
                    found += self._live.close(event, self._ts)
                messages = self._projection.messages(event, texts)
                if event.parent_run_id and event.type in RUN_ENDS:
                    found += self._live.end(event, self._ts, messages)
                found += messages
                self._ts, self._transient_count = event.ts, 0
            elif event.type in LIVE_TEXT and (event.run_id, event.step) not in closed:
                found += self._live.chunks(event, self._ts, self._projection.workstream_of(event.run_id))
            elif event.type == TOOL_PROGRESS.name and (message := self._projection.progress(event)):
                found.append({**message, "ts": resume_timestamps.of_transient(self._ts, self._transient_count)})
                self._transient_count += 1
        return found


def is_closing(message: Compact) -> bool:
    """Return whether clients end their stream with this message, provided that the run has ended."""
    kind = message["t"]
    return kind == AgentMessageType.TERMINATED or (kind == AgentMessageType.COMPLETE and "w" not in message)
