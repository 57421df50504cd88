"""Models of a client of each protocol: the text that it shows, and the position from which it resumes."""

from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Protocol
from unittest import mock
from uuid import UUID

from agents_app.types import RunOptions
from audit_app.timeline import KeptEvent
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.session_stream import SessionStream
from sessions_app.surfaces.a2a.projection import TaskUpdates
from sessions_app.surfaces.ag_ui.projection import RunEvents
from sessions_app.surfaces.ag_ui.requests import read_request
from sessions_app.surfaces.agent_messages import consumers, message_stream, queries
from sessions_app.surfaces.agent_messages.projection import StepTextRecord, StoredText, TurnText
from sessions_app.surfaces.agent_messages.streaming_chunks import activity_of
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType, Compact
from sessions_app.surfaces.base.live_text import LiveTexts
from sessions_app.surfaces.chat.page_updates import DiscardText, ShowText
from sessions_app.surfaces.chat.projection import Projection
from sessions_app.surfaces.openai.projection_responses import ResponseEvents, has_text
from sessions_app.surfaces.openai.responses import ResponseContext, message_id
from sessions_app.surfaces.signalr.projection import HubProjection
from sessions_app.surfaces.threads.event_ids import parse_position
from sessions_app.surfaces.threads.foreign_ids import part_id
from sessions_app.surfaces.threads.projection import ENDS, MessageEvents
from sessions_app.surfaces.webchat.projection import page_event
from sessions_app.surfaces.webchat.queries import Details
from sessions_app.surfaces.webchat.rendered_steps import RenderedSteps
from sessions_app.surfaces.zeroclaw.chat_frames import ChatFrames
from tests.unit.sessions_app.live_view.watched_world import SESSION, World
from tests.unit.sessions_app.surfaces.chat.test_projection_properties import Step

RUN = UUID(int=100)
ANSWER = "turn-of-the-answer"


class Reader(Protocol):
    """sent: all pieces of answers that the client was ever sent, in any order."""

    sent: list[str]

    def connect(self, world: World, *, stream_is_there: bool) -> tuple[SessionStream, list[SessionEvent]]:
        """Connect or reconnect. Return a watch from the client's position, and the events that it yields at once."""

    def see(self, event: SessionEvent) -> None: ...

    def text(self, step: int) -> str:
        """Return the text of a step that the client shows."""


class HubClient:
    """Appends tokens."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self._event_id = ""

    def connect(self, world: World, *, stream_is_there: bool) -> tuple[SessionStream, list[SessionEvent]]:
        self._projection = HubProjection("key", "default")
        return world.watch(self._event_id, stream_is_there=stream_is_there, recall=self._projection.recall)

    def see(self, event: SessionEvent) -> None:
        for target, arguments in self._projection.calls(event):
            if target == "ReceiveToken":
                self.sent.append(arguments[1] or "")
            self._event_id = event.cursor

    def text(self, step: int) -> str:
        return self.tokens

    @property
    def tokens(self) -> str:
        return "".join(self.sent)


class ThreadClient:
    def __init__(self) -> None:
        self.sent: list[str] = []
        self.parts: dict[str, str] = {}
        self._last_id = ""

    def connect(self, world: World, *, stream_is_there: bool) -> tuple[SessionStream, list[SessionEvent]]:
        self._message = MessageEvents(RUN, 1, lambda: datetime(2026, 3, 1, tzinfo=UTC), parse_position(self._last_id))
        return world.watch("1", stream_is_there=stream_is_there)

    def see(self, event: SessionEvent) -> None:
        for sent in self._message.end(event) if event.type in ENDS else self._message.see(event):
            if sent.name == "text_start":
                self.parts[sent.data["part_id"]] = ""
            elif sent.name == "text_delta":
                self.parts[sent.data["part_id"]] += sent.data["delta"]
                self.sent.append(sent.data["delta"])
            self._last_id = sent.entry_id or self._last_id

    def text(self, step: int) -> str:
        return self.parts.get(part_id(RUN, step, "text"), "")


class ResponseClient:
    """Takes the text of a message from the event that ends it."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.done: dict[str, str] = {}
        self._number = -1

    def connect(self, world: World, *, stream_is_there: bool) -> tuple[SessionStream, list[SessionEvent]]:
        self._events = ResponseEvents(ResponseContext(RUN, "default", 1, RunOptions()), self._number)
        self._take(self._events.begin())
        return world.watch("1", stream_is_there=stream_is_there, with_dead_claims=has_text(self._number))

    def see(self, event: SessionEvent) -> None:
        self._take(self._events.see(event))

    def _take(self, events: Iterable[dict[str, Any]]) -> None:
        for event in events:
            assert event["sequence_number"] > self._number, "a client would discard it as one that it has"
            self._number = event["sequence_number"]
            if event["type"] == "response.output_text.delta":
                self.sent.append(event["delta"])
            if event["type"] == "response.output_text.done":
                self.done[event["item_id"]] = event["text"]

    def text(self, step: int) -> str:
        return self.done.get(message_id(RUN, step), "")


class FrontEndClient:
    """Keeps messages, and sends them when it connects again."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self._messages: dict[str, dict[str, Any]] = {}

    def connect(self, world: World, *, stream_is_there: bool) -> tuple[SessionStream, list[SessionEvent]]:
        body = {"threadId": "t", "runId": "r", "messages": list(self._messages.values())}
        self._events = RunEvents(RUN, read_request(body), may_decide=False)
        return world.watch("1", stream_is_there=stream_is_there)

    def see(self, event: SessionEvent) -> None:
        for sent in self._events.end(event) if event.type in ENDS else self._events.see(event):
            if sent["type"] == "MESSAGES_SNAPSHOT":
                self._messages = {message["id"]: dict(message) for message in sent["messages"]}
            elif sent["type"] == "TEXT_MESSAGE_START":
                new = {"id": sent["messageId"], "role": "assistant", "content": ""}
                self._messages.setdefault(sent["messageId"], new)
            elif sent["type"] == "TEXT_MESSAGE_CONTENT":
                self._messages[sent["messageId"]]["content"] += sent["delta"]
                self.sent.append(sent["delta"])

    def text(self, step: int) -> str:
        return str(self._messages.get(f"text_{RUN.hex}_{step}", {}).get("content") or "")


class TaskClient:
    """Keeps the answer of a task: the text of its newest step. A new connection begins with the whole of it."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self._texts: dict[int, str] = {}

    def connect(self, world: World, *, stream_is_there: bool) -> tuple[SessionStream, list[SessionEvent]]:
        self._updates, step = TaskUpdates(RUN, "context"), 0
        stream, events = world.watch("1", stream_is_there=stream_is_there)
        for event in events:
            step = event.step or 0 if self._updates.see(event) else step
        self._take(self._updates.whole_text(), step)
        return stream, []

    def see(self, event: SessionEvent) -> None:
        self._take(self._updates.see(event), event.step or 0)

    def _take(self, updates: Iterable[dict[str, Any]], step: int) -> None:
        for update in updates:
            change = update["artifactUpdate"]
            piece = change["artifact"]["parts"][0]["text"]
            self._texts[step] = self._texts.get(step, "") + piece if change["append"] else piece
            self.sent.append(piece)

    def text(self, step: int) -> str:
        return self._texts.get(step, "")


class VisitorClient:
    """Puts each piece of text where it belongs."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.steps: dict[int, str] = {}
        self._event_id = ""

    def connect(self, world: World, *, stream_is_there: bool) -> tuple[SessionStream, list[SessionEvent]]:
        return world.watch(self._event_id, stream_is_there=stream_is_there)

    def see(self, event: SessionEvent) -> None:
        sent = page_event(event, Details(), RenderedSteps())
        if sent is None:
            return
        if sent.name == "message.delta":
            step, start = sent.data["step"], sent.data["seq"]
            assert start <= len(self.steps.get(step, "")), "a gap"
            self.steps[step] = self.steps.get(step, "")[:start] + sent.data["text"]
            self.sent.append(sent.data["text"])
        self._event_id = event.cursor

    def text(self, step: int) -> str:
        return self.steps.get(step, "")


class GatewayClient:
    """Begins with the open run again, and takes the text from the end of the run, or from the session's messages."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.steps: dict[int, str] = {}

    def connect(self, world: World, *, stream_is_there: bool) -> tuple[SessionStream, list[SessionEvent]]:
        self._world, self._frames, self.steps = world, ChatFrames(), {}
        if any(event.ends_run for event in world.kept):
            self._read_messages()
        return world.watch("1", stream_is_there=stream_is_there)

    def see(self, event: SessionEvent) -> None:
        pieces = [frame["content"] for frame in self._frames.see(event) if frame["type"] == "chunk"]
        if event.step is not None:
            self.steps[event.step] = self.steps.get(event.step, "") + "".join(pieces)
        self.sent += pieces
        if event.type in ENDS:
            self._read_messages()

    def _read_messages(self) -> None:
        self.steps = {step: text for (_, step), text in self._world.stored.items()}

    def text(self, step: int) -> str:
        return self.steps.get(step, "")


class AgentClient:
    """Shows chunks until a message with their id replaces them."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.chunks: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self._ts = 0.0

    def connect(self, world: World, *, stream_is_there: bool) -> tuple[SessionStream, list[SessionEvent]]:
        self._world = world
        run: Any = SimpleNamespace(session=SimpleNamespace(id=SESSION), is_interactive=True, metadata={})
        principal: Any = SimpleNamespace(can_write=False, user=None)
        with mock.patch.multiple(queries, timeline=_Timeline(world), load_texts=self._texts):
            self._stream, messages = consumers.open_message_stream(principal, run, self._ts, with_history=True)
        self._take(messages)
        return world.watch(self._stream.cursor, stream_is_there=stream_is_there)

    def see(self, event: SessionEvent) -> None:
        with mock.patch.object(message_stream, "in_db", _call), mock.patch.object(queries, "load_texts", self._texts):
            self._take(_result(self._stream.messages([event])))

    def text(self, step: int) -> str:
        activity = activity_of(RUN, step)
        return self.chunks.get(activity) or self.messages.get(activity, "")

    def _take(self, messages: list[Compact]) -> None:
        for message in messages:
            self._ts = max(self._ts, message["ts"])
            self.sent.append(message.get("m", ""))
            if message["t"] == AgentMessageType.STREAMING_CHUNK:
                self.chunks[message["i"]] = self.chunks.get(message["i"], "") + message.get("m", "")
            elif activity := message.get("d", {}).get("activity_id"):
                self.chunks.pop(activity, None)
                self.messages[activity] = message.get("m", "")

    def _texts(self, events: Iterable[SessionEvent]) -> StoredText:
        stored = self._world.stored
        steps = {place: StepTextRecord(text) for place, text in stored.items()}
        return StoredText({ANSWER: TurnText(stored[max(stored)])} if stored else {}, steps)


class PageClient:
    """The chat page: reconnects behind the last stored event, and leaves closed steps as they are."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self._steps: dict[int, Step] = {}
        self._closed: dict[int, str] = {}
        self._cursor = ""

    def connect(self, world: World, *, stream_is_there: bool) -> tuple[SessionStream, list[SessionEvent]]:
        self._world = world
        self._projection = Projection(LiveTexts())
        return world.watch(self._cursor, stream_is_there=stream_is_there)

    def see(self, event: SessionEvent) -> None:
        if "text_length" in event.payload and event.step is not None:
            self._close(event.step)
        for update in self._projection.updates([event]):
            if isinstance(update, DiscardText) and update.step not in self._closed:
                self._steps.pop(update.step, None)
            elif isinstance(update, ShowText) and update.step not in self._closed:
                step = self._steps.setdefault(update.step, Step())
                step.take(update)
                self.sent.append(step.open)
        self._cursor = event.cursor.partition(".")[0]

    def _close(self, index: int) -> None:
        """Close a step. Of blocks that are rendered, the model has the length only."""
        step = self._steps.get(index, Step())
        self._closed[index] = self._world.stored[RUN, index][: step.done] + step.open

    def text(self, step: int) -> str:
        return self._closed[step]


class _Timeline:
    def __init__(self, world: World) -> None:
        self._kept = world.kept

    def find_place(self, session_id: UUID, *, ts: int) -> tuple[int, int]:
        return max(((event.seq, event.ts) for event in self._kept if event.ts <= ts), default=(0, 0))

    def list_events_of_types(self, session_id: UUID, types: Iterable[str], *, until: int) -> list[KeptEvent]:
        return [event for event in self._kept if event.type in types and event.seq <= until]

    def list_events(self, session_id: UUID, *, after: int) -> list[KeptEvent]:
        return self._kept[after:]


async def _call(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def _result(work: Coroutine[Any, Any, list[Compact]]) -> list[Compact]:
    """Return the result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the coroutine waited")
