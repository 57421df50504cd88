"""Live text as streaming chunks for a client that may have some of the text already.

Clients concatenate the chunks of an activity, and replace them by the stored message that carries its id. When the text
of a step starts again, an empty THOUGHT with that id precedes it: clients drop the chunks and show nothing for it.

A chunk of a workstream has the `ts` of the main agent's last chunk, so that it does not move the position from which a
client resumes: it then gets the text of each open workstream from its beginning.
"""

from collections.abc import Iterable
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
    has_children: whether there were workstreams, whose events come in between, at the time that it resumes from.
    """

    def __init__(
        self, received: ReceivedText | None = None, *, has_resumed: bool = False, has_children: bool = False
    ) -> None:
        self._received = received
        self._has_resumed = has_resumed
        self._may_repeat = has_resumed and has_children
        self._open: dict[UUID | None, _StepText] = {}
        self._children: set[UUID | None] = set()  # child runs of which chunks were sent
        self._main: _StepText | None = None

    def chunks(self, event: SessionEvent, after: int, workstream: str = "") -> list[Compact]:
        """Return the messages for an event of LIVE_TEXT. after: `ts` of the stored event before it."""
        if workstream:
            return self._chunks_of_child(event, self._ts(after), workstream)
        text, resumed = self._open.get(event.run_id), []
        if text is None or text.step != event.step:
            text = self._open[event.run_id] = self._main = _StepText(event, has_resumed=self._has_resumed)
            if self._received:
                resumed, self._received = text.resume(self._received, after), None
            elif self._has_resumed and self._may_repeat:
                resumed = text.reset(after, "resumed")
        return [*resumed, *text.chunks(event, after)]

    def is_open(self, event: SessionEvent) -> bool:
        """Return whether the client may have chunks of the event's step. An earlier connection counts for root runs."""
        text = self._open.get(event.run_id)
        is_received = self._received is not None and not event.parent_run_id
        return is_received or (text is not None and text.step == event.step)

    def close(self, event: SessionEvent, after: int) -> list[Compact]:
        """Return the last chunk of the step that a stored event closes, if any of its chunks was sent."""
        at = self._ts(after) if event.parent_run_id else after
        text = self._open.pop(event.run_id, None)
        if not event.parent_run_id:
            self._received, self._has_resumed, self._main = None, False, None
        return text.close(at) if text else []

    def end(self, event: SessionEvent, after: int, messages: Iterable[Compact]) -> list[Compact]:
        """Return the last chunk of the open step of a child run that ends, or its resets if no message replaces it.

        messages: of the end.
        """
        text = self._open.pop(event.run_id, None)
        if text is None:
            return []
        is_replaced = any(message.get("d", {}).get("activity_id") == text.activities[0] for message in messages)
        return text.close(self._ts(after)) if is_replaced else text.reset(self._ts(after), "")

    def _chunks_of_child(self, event: SessionEvent, at: float, workstream: str) -> list[Compact]:
        text, resumed = self._open.get(event.run_id), []
        if text is None or text.step != event.step:
            text = self._open[event.run_id] = _StepText(event, workstream)
            if self._may_repeat and event.run_id not in self._children:
                resumed = [reset_text(activity, "resumed", at, workstream) for activity in text.activities]
            self._children.add(event.run_id)
        return [*resumed, *text.chunks(event, at)]

    def _ts(self, after: int) -> float:
        """Return the `ts` of what the client has of the main agent."""
        if self._received is not None:
            return resume_timestamps.of_received(after, self._received)
        return self._main.ts(after) if self._main else after


class _StepText:
    """The text of one step. Times are those of the event before a chunk, or that of each chunk of a workstream."""

    def __init__(self, first: SessionEvent, workstream: str = "", *, has_resumed: bool = False) -> None:
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

    @property
    def activities(self) -> tuple[str, str]:
        """The ids of its text and of its reasoning."""
        return self._activity, reasoning_of(self._activity)

    def resume(self, received: ReceivedText, after: float) -> list[Compact]:
        """Continue after the received text, or from the beginning if it is of another claim."""
        if received.length is not None and received.claim == self._fence & 1:
            self._sent, self._has_sent = received.length, True
            self._position = resume_timestamps.position_of(received.length)
            return []
        return self.reset(after, "resumed")

    def chunks(self, event: SessionEvent, after: float) -> list[Compact]:
        if event.cursor:
            self._fence = _fence_of(event)
        match event.type:
            case TEXT_DELTA.name:
                delta = TEXT_DELTA.payload(event)
                return self._add(delta["offset"], delta["text"], after)
            case SNAPSHOT.name:
                text = SNAPSHOT.payload(event)["text"]
                reset = [] if text.startswith(self._text) else self.reset(after, "")
                return [*reset, *self._add(0, text, after)]
            case REASONING_DELTA.name:
                delta = REASONING_DELTA.payload(event)
                return self._add_reasoning(delta["offset"], delta["text"], after)
        return self.reset(after, MESSAGE_RESET.payload(event)["reason"])

    def close(self, after: float) -> list[Compact]:
        if not self._has_sent:
            return []
        text = self._text
        reset = self.reset(after, "") if self._sent > len(text) else []
        return [*reset, {**self._chunk(text[self._sent :], after, self._activity), "f": 1}]

    def _add(self, offset: int, text: str, after: float) -> list[Compact]:
        self._text = self._text[:offset] + text
        position = 0 if self._workstream else resume_timestamps.position_of(len(self._text))
        is_exact = position and resume_timestamps.is_exact(position)
        ready = resume_timestamps.length_at(position) if is_exact else len(self._text)
        if ready <= self._sent:
            return []
        piece = self._text[self._sent : ready]
        self._sent, self._position, self._has_sent = ready, position, True
        return [self._chunk(piece, after, self._activity)]

    def _add_reasoning(self, offset: int, text: str, after: float) -> list[Compact]:
        piece = text[max(0, self._reasoning - offset) :]
        if not piece:
            return []
        activity = reasoning_of(self._activity)
        # No `ts` encodes how much reasoning a client has: one that resumes gets all of it again.
        is_repeated = self._has_resumed and not self._reasoning
        reset = [reset_text(activity, "resumed", self.ts(after), self._workstream)] if is_repeated else []
        self._reasoning = offset + len(text)
        return [*reset, self._chunk(piece, after, activity)]

    def reset(self, after: float, reason: str) -> list[Compact]:
        activities = [self._activity, *([reasoning_of(self._activity)] if self._reasoning else [])]
        messages = [reset_text(activity, reason, self.ts(after), self._workstream) for activity in activities]
        self._text, self._sent, self._position, self._reasoning = "", 0, 0, 0
        return messages

    def _chunk(self, piece: str, after: float, activity: str) -> Compact:
        kind, ts = AgentMessageType.STREAMING_CHUNK, self.ts(after)
        return {**create(kind, message=piece, workstream=self._workstream, timestamp=ts), "i": activity}

    def ts(self, after: float) -> float:
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
