"""Live text as streaming chunks: what of it to send to a client that may have some already. Pure.

Chunks of one activity are put together by clients, and taken away by the message that carries its id. So when a text
begins again, an empty thought with that id comes first: clients drop what they have, and show nothing for it.
"""

from uuid import UUID

from agents_app.events import MESSAGE_RESET, REASONING_DELTA, SNAPSHOT, TEXT_DELTA
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.agent_messages import resume_timestamps
from sessions_app.surfaces.agent_messages.resume_timestamps import Mark
from sessions_app.surfaces.agent_messages.wire_format import Compact, MessageType, create

LIVE_TEXT = (TEXT_DELTA.name, REASONING_DELTA.name, SNAPSHOT.name, MESSAGE_RESET.name)


def activity_of(run_id: UUID | None, step: int | None) -> str:
    """The id under which the text of a step is streamed and then stored."""
    return f"{run_id}.{step or 0}"


def reasoning_of(activity: str) -> str:
    return f"{activity}.reasoning"


class LiveText:
    """The text of each run's open step, as one client has it. mark: how much of the present one it says that it has;
    came_back: whether it may have more than that from an earlier connection."""

    def __init__(self, mark: Mark | None = None, *, came_back: bool = False) -> None:
        self._mark = mark
        self._came_back = came_back
        self._open: dict[UUID | None, _OpenText] = {}

    def see(self, fact: SessionEvent, after: int, workstream: str = "") -> list[Compact]:
        """What a fact of live text adds. after: `ts` of the last event before it."""
        text = self._open.get(fact.run_id)
        if text is None or text.step != fact.step:
            text = self._open[fact.run_id] = _OpenText(fact, workstream, self._came_back)
            if not workstream and self._mark:
                said, self._mark = text.resume(self._mark, after), None
                return [*said, *text.see(fact, after)]
        return text.see(fact, after)

    def is_open(self, run_id: UUID | None, step: int | None) -> bool:
        """Whether some text of this step was told, or may have been on an earlier connection."""
        text = self._open.get(run_id)
        return self._mark is not None or (text is not None and text.step == step)

    def close(self, fact: SessionEvent, after: int) -> list[Compact]:
        """The last chunk of the step that a kept fact closes, if any of it was sent."""
        self._mark, self._came_back = None, False
        text = self._open.pop(fact.run_id, None)
        return text.close(after) if text else []


class _OpenText:
    def __init__(self, first: SessionEvent, workstream: str, came_back: bool) -> None:
        self._came_back = came_back
        self.step = first.step
        self._activity = activity_of(first.run_id, first.step)
        self._workstream = workstream
        self._fence = _fence_of(first)
        self._now = ""  # the text as it is told here; what of it the client lacks waits for a place that can be told
        self._sent = 0  # letters of the text that the client has
        self._position = 0
        self._reasoning = 0
        self._has_said = False

    def resume(self, mark: Mark, after: int) -> list[Compact]:
        """Go on where the client says it is, or from the beginning if that is a place in another text."""
        if mark.length is not None and mark.claim == self._fence & 1:
            self._sent, self._position, self._has_said = mark.length, resume_timestamps.position_of(mark.length), True
            return []
        return self._begin_again(after, "resumed")

    def see(self, fact: SessionEvent, after: int) -> list[Compact]:
        if fact.cursor:
            self._fence = _fence_of(fact)
        match fact.type:
            case TEXT_DELTA.name:
                return self._add(fact.payload["offset"], fact.payload["text"], after)
            case SNAPSHOT.name:
                text = fact.payload["text"]
                said = [] if text.startswith(self._now) else self._begin_again(after, "")
                return [*said, *self._add(0, text, after)]
            case REASONING_DELTA.name:
                return self._reason(fact.payload["offset"], fact.payload["text"], after)
        return self._begin_again(after, str(fact.payload.get("reason", "")))

    def close(self, after: int) -> list[Compact]:
        if not self._has_said:
            return []
        whole = self._now
        said = self._begin_again(after, "") if self._sent > len(whole) else []
        return [*said, {**self._chunk(whole[self._sent :], after), "f": 1}]

    def _add(self, offset: int, text: str, after: int) -> list[Compact]:
        self._now = self._now[:offset] + text
        position = resume_timestamps.position_of(len(self._now))
        ready = resume_timestamps.length_at(position) if resume_timestamps.is_told(position) else len(self._now)
        if ready <= self._sent:
            return []
        piece = self._now[self._sent : ready]
        self._sent, self._position, self._has_said = ready, position, True
        return [self._chunk(piece, after)]

    def _chunk(self, piece: str, after: int) -> Compact:
        ts = resume_timestamps.of_text(after, self._fence, self._position)
        kind = MessageType.STREAMING_CHUNK
        return {**create(kind, message=piece, workstream=self._workstream, timestamp=ts), "i": self._activity}

    def _reason(self, offset: int, text: str, after: int) -> list[Compact]:
        piece = text[max(0, self._reasoning - offset) :]
        if not piece:
            return []
        activity = reasoning_of(self._activity)
        ts = resume_timestamps.of_text(after, self._fence, self._position)
        # Nothing tells how much of it a client has that came back.
        said = [forget(activity, "resumed", ts, self._workstream)] if self._came_back and not self._reasoning else []
        self._reasoning = offset + len(text)
        kind = MessageType.STREAMING_CHUNK
        chunk = create(kind, message=piece, workstream=self._workstream, timestamp=ts)
        return [*said, {**chunk, "i": activity}]

    def _begin_again(self, after: int, reason: str) -> list[Compact]:
        ts = resume_timestamps.of_text(after, self._fence, self._position)
        said = [forget(self._activity, reason, ts, self._workstream)]
        if self._reasoning:
            said.append(forget(reasoning_of(self._activity), reason, ts, self._workstream))
        self._now, self._sent, self._position, self._reasoning = "", 0, 0, 0
        return said


def forget(activity: str, reason: str, ts: float, workstream: str = "") -> Compact:
    """Takes away what a client has of this text."""
    details = {"event_class": "stream_reset", "activity_id": activity, "streamed": True}
    if reason:
        details["reason"] = reason
    return create(MessageType.THOUGHT, details=details, workstream=workstream, timestamp=ts)


def _fence_of(fact: SessionEvent) -> int:
    """The number of the claim that wrote a live fact."""
    return int(fact.cursor.partition(".")[2].partition("-")[0] or 0)
