"""Live text as streaming chunks for a client that may have some of the text already.

Clients concatenate the chunks of an activity, and replace them by the stored message that carries its id. When the text
of a step starts again, an empty THOUGHT with that id precedes it: clients drop the chunks and show nothing for it.
"""

from uuid import UUID

from agents_app.events import MESSAGE_RESET, REASONING_DELTA, SNAPSHOT, TEXT_DELTA
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.agent_messages import resume_timestamps
from sessions_app.surfaces.agent_messages.resume_timestamps import ReceivedText
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType, Compact, create

LIVE_TEXT = (TEXT_DELTA.name, REASONING_DELTA.name, SNAPSHOT.name, MESSAGE_RESET.name)


def activity_of(run_id: UUID | None, step: int | None) -> str:
    """Return the id under which the text of a step is streamed and then stored."""
    return f"{run_id}.{step or 0}"


def reasoning_of(activity: str) -> str:
    return f"{activity}.reasoning"


class LiveText:
    """The text of each run's open step, as one client has it.

    received: the text of the open step that the client has, according to its `since`.
    has_resumed: whether it may have more text than that, from an earlier connection.
    """

    def __init__(self, received: ReceivedText | None = None, *, has_resumed: bool = False) -> None:
        self._received = received
        self._has_resumed = has_resumed
        self._open: dict[UUID | None, _StepText] = {}

    def chunks(self, event: SessionEvent, after: int, workstream: str = "") -> list[Compact]:
        """Return the messages for an event of LIVE_TEXT. after: `ts` of the stored event before it."""
        text, resumed = self._open.get(event.run_id), []
        if text is None or text.step != event.step:
            text = self._open[event.run_id] = _StepText(event, workstream, self._has_resumed)
            if not workstream and self._received:
                resumed, self._received = text.resume(self._received, after), None
        return [*resumed, *text.chunks(event, after)]

    def is_open(self, run_id: UUID | None, step: int | None) -> bool:
        """Return whether the client may have chunks of this step, from this connection or an earlier one."""
        text = self._open.get(run_id)
        return self._received is not None or (text is not None and text.step == step)

    def close(self, event: SessionEvent, after: int) -> list[Compact]:
        """Return the last chunk of the step that a stored event closes, if any of its chunks was sent."""
        self._received, self._has_resumed = None, False
        text = self._open.pop(event.run_id, None)
        return text.close(after) if text else []


class _StepText:
    def __init__(self, first: SessionEvent, workstream: str, has_resumed: bool) -> None:
        self._has_resumed = has_resumed
        self.step = first.step
        self._activity = activity_of(first.run_id, first.step)
        self._workstream = workstream
        self._fence = _fence_of(first)
        self._text = ""  # its end is sent later if its length is not an exact position
        self._sent = 0  # characters of the text that the client has
        self._position = 0
        self._reasoning = 0  # characters of the reasoning that were sent
        self._has_sent = False

    def resume(self, received: ReceivedText, after: int) -> list[Compact]:
        """Continue after the received text, or from the beginning if it is of another claim."""
        if received.length is not None and received.claim == self._fence & 1:
            self._sent, self._has_sent = received.length, True
            self._position = resume_timestamps.position_of(received.length)
            return []
        return self._reset(after, "resumed")

    def chunks(self, event: SessionEvent, after: int) -> list[Compact]:
        if event.cursor:
            self._fence = _fence_of(event)
        match event.type:
            case TEXT_DELTA.name:
                delta = TEXT_DELTA.payload(event)
                return self._add(delta["offset"], delta["text"], after)
            case SNAPSHOT.name:
                text = SNAPSHOT.payload(event)["text"]
                reset = [] if text.startswith(self._text) else self._reset(after, "")
                return [*reset, *self._add(0, text, after)]
            case REASONING_DELTA.name:
                delta = REASONING_DELTA.payload(event)
                return self._add_reasoning(delta["offset"], delta["text"], after)
        return self._reset(after, MESSAGE_RESET.payload(event)["reason"])

    def close(self, after: int) -> list[Compact]:
        if not self._has_sent:
            return []
        text = self._text
        reset = self._reset(after, "") if self._sent > len(text) else []
        return [*reset, {**self._chunk(text[self._sent :], after, self._activity), "f": 1}]

    def _add(self, offset: int, text: str, after: int) -> list[Compact]:
        self._text = self._text[:offset] + text
        position = resume_timestamps.position_of(len(self._text))
        ready = resume_timestamps.length_at(position) if resume_timestamps.is_exact(position) else len(self._text)
        if ready <= self._sent:
            return []
        piece = self._text[self._sent : ready]
        self._sent, self._position, self._has_sent = ready, position, True
        return [self._chunk(piece, after, self._activity)]

    def _add_reasoning(self, offset: int, text: str, after: int) -> list[Compact]:
        piece = text[max(0, self._reasoning - offset) :]
        if not piece:
            return []
        activity = reasoning_of(self._activity)
        # No `ts` encodes how much reasoning a client has: one that resumes gets all of it again.
        is_repeated = self._has_resumed and not self._reasoning
        reset = [reset_text(activity, "resumed", self._ts(after), self._workstream)] if is_repeated else []
        self._reasoning = offset + len(text)
        return [*reset, self._chunk(piece, after, activity)]

    def _reset(self, after: int, reason: str) -> list[Compact]:
        activities = [self._activity, *([reasoning_of(self._activity)] if self._reasoning else [])]
        messages = [reset_text(activity, reason, self._ts(after), self._workstream) for activity in activities]
        self._text, self._sent, self._position, self._reasoning = "", 0, 0, 0
        return messages

    def _chunk(self, piece: str, after: int, activity: str) -> Compact:
        kind, ts = AgentMessageType.STREAMING_CHUNK, self._ts(after)
        return {**create(kind, message=piece, workstream=self._workstream, timestamp=ts), "i": activity}

    def _ts(self, after: int) -> float:
        return resume_timestamps.of_text(after, self._fence, self._position)


def reset_text(activity: str, reason: str, ts: float, workstream: str = "") -> Compact:
    """Return the message with which clients drop the chunks of an activity."""
    details = {"event_class": "stream_reset", "activity_id": activity, "streamed": True}
    if reason:
        details["reason"] = reason
    return create(AgentMessageType.THOUGHT, details=details, workstream=workstream, timestamp=ts)


def _fence_of(event: SessionEvent) -> int:
    """Return the fence of the claim that wrote a live event, from its cursor."""
    return int(event.cursor.partition(".")[2].partition("-")[0] or 0)
