"""Projection of a session's kept events to stored messages, with their order and time.

Each event has at most one message at its own millisecond; messages that precede it have a `ts` just below (see
`resume_timestamps`). A turn of the main agent ends with IDLE, REQUEST_INPUT, COMPLETE or TERMINATED, from which clients
conclude that the agent is not working. The caller loads the texts of turns and steps.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from agents_app import events as runs
from sessions_app import events as sessions
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.agent_messages import event_messages, input_requests, message_types, resume_timestamps
from sessions_app.surfaces.agent_messages.streaming_chunks import activity_of, reasoning_of
from sessions_app.surfaces.agent_messages.wire_format import Compact
from tools_app import events as tools
from tools_app.types import Decision

# Signals that end a run for good, and select the last message of its open turn.
TERMINATE, COMPLETE = "terminate", "complete"
_ABOUT_WORKSTREAMS = frozenset(runs.WORKSTREAM_EVENTS)
_CALL_ENDS = frozenset({tools.TOOL_COMPLETED.name, tools.TOOL_FAILED.name})
# Events that a projection needs of the time before it starts; see `Projection.prime`.
PRIMING = frozenset({*runs.RUN_ENDS, runs.RUN_QUEUED.name, sessions.SIGNAL_RECEIVED.name, event_messages.LAUNCHED})


@dataclass(frozen=True)
class TurnText:
    """The text of a turn. answers: id of the question that a user turn answers, or empty."""

    content: str
    error_message: str = ""
    error_code: str = ""
    answers: str = ""


@dataclass(frozen=True)
class StepTextRecord:
    text: str = ""
    reasoning: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoredText:
    """Texts to which events refer.

    turns: by id.
    steps: by run and index.
    answers: answers of ended runs, by run.
    results: results of ended child runs, by run: the text and the number of the step that has it.
    """

    turns: Mapping[str, TurnText] = field(default_factory=dict)
    steps: Mapping[tuple[UUID, int], StepTextRecord] = field(default_factory=dict)
    answers: Mapping[UUID, str] = field(default_factory=dict)
    results: Mapping[UUID, tuple[str, int]] = field(default_factory=dict)


NO_TEXT = StoredText()
_NO_STEP = StepTextRecord()
_Messages = list[Compact]


class Projection:
    """The messages of one session, in the order of its events.

    is_interactive: whether the run stays open after an answer.
    allowed_decisions: decisions on approval requests that the viewer may make.
    """

    def __init__(self, *, is_interactive: bool, allowed_decisions: Collection[Decision]) -> None:
        self._is_interactive = is_interactive
        self._allowed_decisions = allowed_decisions
        self._open: set[UUID] = set()
        self._signals: dict[UUID, sessions.SignalReceived] = {}
        self._workstreams: dict[str, str] = {}  # unique names by run
        self._paths: dict[str, tuple[str, ...]] = {}  # names for people by run: those above it and its own
        self._calls: dict[str, SessionEvent] = {}

    def prime(self, event: SessionEvent) -> None:
        """Record an event of PRIMING that the client has already seen."""
        if event.type == event_messages.LAUNCHED and event.payload.get("run_id"):
            self._launch(event)
        elif event.run_id is None:
            return
        elif event.type == runs.RUN_QUEUED.name:
            self._open.add(event.run_id)
        elif event.type == sessions.SIGNAL_RECEIVED.name:
            self._signals[event.run_id] = sessions.SIGNAL_RECEIVED.payload(event)
        elif event.type in runs.RUN_ENDS:
            self._open.discard(event.run_id)

    @property
    def has_children(self) -> bool:
        return bool(self._workstreams)

    @property
    def open_children(self) -> set[UUID]:
        """The child runs that are open after the events seen so far."""
        return {run_id for run_id in self._open if self.workstream_of(run_id)}

    def messages(self, event: SessionEvent, texts: StoredText = NO_TEXT) -> _Messages:
        """Return the messages of a kept event, in order, with their time."""
        was_open = event.run_id in self._open
        self.prime(event)
        if event.type in _ABOUT_WORKSTREAMS:
            found = [event_messages.MESSAGES[event.type](self._named(event))]
        elif event.type in event_messages.MESSAGES:
            if event.type in _CALL_ENDS:
                self._calls.pop(event.payload["execution_id"], None)
            found = [event_messages.MESSAGES[event.type](event)]
        elif event.type in _BUILDERS:
            found = _BUILDERS[event.type](self, event, texts)
        elif event.type in runs.RUN_ENDS:
            found = self._result(event, texts) or self._turn_end(event, texts)
        else:
            found = []
        if event.type == sessions.MESSAGE_COMPLETED.name and not was_open:
            found += self._turn_end(event, texts)  # an answer stored after the end: the agent is still not working
        return self._timed(found, event)

    def _launch(self, event: SessionEvent) -> None:
        run_id, name = str(event.payload["run_id"]), event.payload["workstream_id"]
        if run_id not in self._workstreams:
            self._workstreams[run_id] = unique_name(name, run_id, set(self._workstreams.values()))
            above = self._paths.get(str(event.payload.get("parent_run_id")), ())
            self._paths[run_id] = (*above, event.payload.get("name") or name)

    def _named(self, event: SessionEvent) -> SessionEvent:
        """Return an event about a workstream with its unique name, and the names of those above it and its own."""
        run_id = str(event.payload.get("run_id"))
        name = self._workstreams.get(run_id) or event.payload["workstream_id"]
        return replace(event, payload={**event.payload, "workstream_id": name, "path": self._paths.get(run_id)})

    def _result(self, event: SessionEvent, texts: StoredText) -> _Messages:
        """Return the whole result of a child run that has ended, as its answer and, if it completed, its end."""
        if event.run_id is None or not self.workstream_of(event.run_id):
            return []
        text, step = texts.results.get(event.run_id, ("", 0))
        is_complete = event.type == runs.RUN_COMPLETED.name
        found = []
        if text.strip():
            found.append(message_types.answer(text, activity_of(event.run_id, step), is_partial=not is_complete))
        return [*found, message_types.complete(text)] if is_complete else found

    def progress(self, event: SessionEvent) -> Compact | None:
        """Return the message of `tool.progress`, without its time; None if the start of the call was not seen."""
        requested = self._calls.get(tools.TOOL_PROGRESS.payload(event)["execution_id"])
        if requested is None:
            return None
        message, workstream = event_messages.tool_progress(event, requested), self.workstream_of(requested.run_id)
        return {**message, "w": workstream} if workstream else message

    def workstream_of(self, run_id: UUID | None) -> str:
        """Return the workstream of a child run, empty for the main agent's runs."""
        return self._workstreams.get(str(run_id), "")

    def _timed(self, found: _Messages, event: SessionEvent) -> _Messages:
        ts, workstream = event.ts or 0, self.workstream_of(event.run_id)
        count = len(found) - 1
        timed = []
        for index, message in enumerate(found):
            message["ts"] = resume_timestamps.before(ts, count, index) if index < count else ts
            timed.append({**message, "w": workstream} if workstream and "w" not in message else message)
        return timed

    def _question(self, event: SessionEvent, texts: StoredText) -> _Messages:
        payload = sessions.MESSAGE_RECEIVED.payload(event)
        turn, note = texts.turns.get(payload["turn_id"]), payload.get("note") or {}
        if turn is None:
            return []
        more = {key: note[key] for key in ("tool_approval_response", "editing_action") if key in note}
        ack = "" if payload["message_id"] == payload["turn_id"] else payload["message_id"]
        metadata = note.get("metadata")
        return [message_types.question(turn.content, ack=ack, metadata=metadata, request_id=turn.answers, more=more)]

    def _tool_requested(self, event: SessionEvent, texts: StoredText) -> _Messages:
        payload = tools.TOOL_REQUESTED.payload(event)
        self._calls[payload["execution_id"]] = event
        return [*(self._step(event, texts) if payload["call_index"] == 0 else []), event_messages.tool_started(event)]

    def _step(self, event: SessionEvent, texts: StoredText) -> _Messages:
        """Return the reasoning and text of a step, where the text of a step with tool calls is a preamble."""
        step, activity = _step_of(event, texts), activity_of(event.run_id, event.step)
        found = _reasoning(step, activity)
        if not step.text.strip():
            return found
        if event.type == tools.TOOL_REQUESTED.name:
            return [*found, message_types.preamble(step.text, activity, step.tools)]
        return [*found, message_types.answer(step.text, activity)]

    def _answer(self, event: SessionEvent, texts: StoredText) -> _Messages:
        """Return the answer of a run, and its error if it failed."""
        payload = sessions.MESSAGE_COMPLETED.payload(event)
        turn, state = texts.turns.get(payload["turn_id"]), payload["state"]
        activity = activity_of(event.run_id, event.step)
        found = _reasoning(_step_of(event, texts), activity)
        if turn and turn.content.strip():
            found.append(message_types.answer(turn.content, activity, is_partial=state != "complete"))
        if turn and state == "error":
            found.append(message_types.error(turn.error_message or "The turn failed.", turn.error_code))
        return found

    def _turn_end(self, event: SessionEvent, texts: StoredText) -> _Messages:
        """Return the message that ends a turn of the main agent; nothing while another turn is open."""
        run_id = event.run_id
        signal = self._signals.pop(run_id, None) if run_id else None
        others = [other for other in self._open if not self.workstream_of(other)]
        if run_id is None or others or self.workstream_of(run_id):
            return []
        if signal and signal["signal"] == TERMINATE:
            return [message_types.terminated(signal["reason"])]
        if signal and signal["signal"] == COMPLETE:
            return [message_types.complete("")]
        if event.type == runs.RUN_CANCELLED.name:
            message = runs.RUN_CANCELLED.payload(event)["message"]
            return [message_types.stopped(message, ack=signal["ack"] if signal else "")]
        usage = _token_usage(runs.RUN_COMPLETED.payload(event)["usage"]) if event.type in runs.RUN_ENDS else {}
        if self._is_interactive:
            return [message_types.idle(token_usage=usage)]
        return [message_types.complete(texts.answers.get(run_id, ""), token_usage=usage)]

    def _waiting(self, event: SessionEvent, texts: StoredText) -> _Messages:
        payload = runs.RUN_WAITING.payload(event)
        if payload["waiting_on"] != "retry":
            return []
        text = f"{payload['reason'] or 'The model did not answer.'} Trying again."
        return [message_types.warning(text, until=payload["until"])]

    def _fallback(self, event: SessionEvent, texts: StoredText) -> _Messages:
        payload = runs.MODEL_FALLBACK.payload(event)
        return [message_types.warning(f"{payload['reason']} Continuing with {payload['to']}.", until=None)]

    def _approval_request(self, event: SessionEvent, texts: StoredText) -> _Messages:
        payload = tools.APPROVAL_REQUESTED.payload(event)
        return [input_requests.approval_request(payload, allowed_decisions=self._allowed_decisions)]


_BUILDERS: dict[str, Callable[[Projection, SessionEvent, StoredText], _Messages]] = {
    sessions.MESSAGE_RECEIVED.name: Projection._question,
    sessions.MESSAGE_COMPLETED.name: Projection._answer,
    runs.STEP_COMPLETED.name: Projection._step,
    runs.RUN_WAITING.name: Projection._waiting,
    runs.MODEL_FALLBACK.name: Projection._fallback,
    tools.TOOL_REQUESTED.name: Projection._tool_requested,
    tools.APPROVAL_REQUESTED.name: Projection._approval_request,
}


def unique_name(name: str, run_id: str, taken: Collection[str]) -> str:
    """Return the name of a workstream in its session: its own or, if another has that, with the end of its run's id."""
    return f"{name}_{run_id[-8:]}" if name in taken else name


def _step_of(event: SessionEvent, texts: StoredText) -> StepTextRecord:
    return texts.steps.get((event.run_id, event.step or 0), _NO_STEP) if event.run_id else _NO_STEP


def _reasoning(step: StepTextRecord, activity: str) -> _Messages:
    return [message_types.thinking(step.reasoning, reasoning_of(activity))] if step.reasoning.strip() else []


def _token_usage(usage: runs.RunUsage) -> dict[str, int]:
    read, written = usage["input_tokens"], usage["output_tokens"]
    return {"prompt": read, "result": written, "total": read + written} if read or written else {}
