"""Kept events of a session as stored messages: which there are, in which order, at which time. Pure: facts in, messages
out; the words of turns and steps are looked up by whoever calls.

Each event has at most one message at its own millisecond; what belongs before it comes just below (see `marks`). A turn
of the main agent ends with IDLE, REQUEST_INPUT, COMPLETE or TERMINATED: by that clients know that it does not work.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agents_app import events as runs
from sessions_app import events as sessions
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.agent_messages import event_messages, input_requests, message_types, resume_timestamps
from sessions_app.surfaces.agent_messages.streaming_chunks import activity_of, reasoning_of
from sessions_app.surfaces.agent_messages.wire_format import Compact, create
from tools_app import events as tools
from tools_app.types import Decision

# Signals that end a run for good: what its last turn ends with then.
TERMINATE, COMPLETE = "terminate", "complete"
_CALL_ENDS = frozenset({tools.TOOL_COMPLETED.name, tools.TOOL_FAILED.name})
# What has to be known of the events before a place to go on from there; see `Projection.prime`.
PRIMING = frozenset({*runs.RUN_ENDS, runs.RUN_QUEUED.name, sessions.SIGNAL_RECEIVED.name, event_messages.LAUNCHED})


@dataclass(frozen=True)
class TurnWords:
    """One turn. answers: the question that it answers, if it does."""

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
class Words:
    """What events only refer to. turns: by id; steps: by run and index; answers: of ended runs, by run."""

    turns: Mapping[str, TurnWords] = field(default_factory=dict)
    steps: Mapping[tuple[UUID, int], StepTextRecord] = field(default_factory=dict)
    answers: Mapping[UUID, str] = field(default_factory=dict)


NO_WORDS = Words()
_NO_STEP = StepTextRecord()
_Messages = list[Compact]


class Projection:
    """One reading of one session, in the order of its events.

    is_interactive: the conversation goes on after an answer; may_say: all that the reader may say to requests for
    approval.
    """

    def __init__(self, *, is_interactive: bool, allowed_decisions: Collection[Decision]) -> None:
        self._is_interactive = is_interactive
        self._allowed_decisions = allowed_decisions
        self._open: set[UUID] = set()
        self._signals: dict[UUID, Mapping[str, Any]] = {}
        self._workstreams: dict[str, str] = {}
        self._calls: dict[str, SessionEvent] = {}

    def prime(self, fact: SessionEvent) -> None:
        """Take note of an event that the reader has seen already."""
        if fact.type == runs.RUN_QUEUED.name and fact.run_id:
            self._open.add(fact.run_id)
        elif fact.type == sessions.SIGNAL_RECEIVED.name and fact.run_id:
            self._signals[fact.run_id] = fact.payload
        elif fact.type == event_messages.LAUNCHED and fact.payload.get("run_id"):
            self._workstreams[str(fact.payload["run_id"])] = fact.payload["workstream_id"]
        elif fact.type in runs.RUN_ENDS and fact.run_id:
            self._open.discard(fact.run_id)

    def see(self, fact: SessionEvent, words: Words = NO_WORDS) -> _Messages:
        """The messages of a kept event, in order, each with its time."""
        was_open = fact.run_id in self._open
        self.prime(fact)
        make = _MAKERS.get(fact.type)
        if make is not None:
            found = make(self, fact, words)
        elif fact.type in runs.RUN_ENDS:
            found = self._close(fact, words)
        elif fact.type == sessions.MESSAGE_COMPLETED.name:
            found = self._say_end(fact, words)
            if not was_open:  # it came late: the turn must not seem to go on
                found += self._close(fact, words)
        else:
            found = []
        return self._timed(found, fact)

    def pass_by(self, fact: SessionEvent) -> Compact | None:
        """What a tool call says meanwhile, without its time; nothing of one whose beginning was not seen."""
        requested = self._calls.get(fact.payload["execution_id"])
        if requested is None:
            return None
        message, workstream = event_messages.progress(fact, requested), self.workstream_of(requested.run_id)
        return {**message, "w": workstream} if workstream else message

    def workstream_of(self, run_id: UUID | None) -> str:
        """The workstream of a child run, empty for the main agent's."""
        return self._workstreams.get(str(run_id), "")

    def _timed(self, found: _Messages, fact: SessionEvent) -> _Messages:
        ts, workstream = fact.ts or 0, self.workstream_of(fact.run_id)
        count = len(found) - 1
        timed = []
        for index, message in enumerate(found):
            message["ts"] = resume_timestamps.before(ts, count, index) if index < count else ts
            timed.append({**message, "w": workstream} if workstream and "w" not in message else message)
        return timed

    # The makers, one for each type of event.

    def _say_question(self, fact: SessionEvent, words: Words) -> _Messages:
        turn_id, ack = fact.payload["turn_id"], fact.payload.get("message_id", "")
        turn, note = words.turns.get(turn_id), fact.payload.get("note") or {}
        if turn is None:
            return []
        more = {key: note[key] for key in ("tool_approval_response", "editing_action") if key in note}
        return [
            message_types.question(
                turn.content,
                ack="" if ack == turn_id else ack,
                metadata=note.get("metadata"),
                request_id=turn.answers,
                more=more,
            )
        ]

    def _say_tool_requested(self, fact: SessionEvent, words: Words) -> _Messages:
        found: _Messages = []
        if fact.payload.get("call_index", 0) == 0:
            found = self._say_step(fact, words, before_tools=True)
        self._calls[fact.payload["execution_id"]] = fact
        return [*found, event_messages.started(fact)]

    def _say_step_completed(self, fact: SessionEvent, words: Words) -> _Messages:
        return self._say_step(fact, words)

    def _say_step(self, fact: SessionEvent, words: Words, *, before_tools: bool = False) -> _Messages:
        """What was thought and said in a step that is recorded."""
        step = words.steps.get((fact.run_id, fact.step or 0), _NO_STEP) if fact.run_id else _NO_STEP
        activity, found = activity_of(fact.run_id, fact.step), []
        if step.reasoning.strip():
            found.append(message_types.thinking(step.reasoning, reasoning_of(activity)))
        if before_tools and step.text.strip():
            found.append(message_types.preamble(step.text, activity, step.tools))
        elif step.text.strip():
            found.append(message_types.answer(step.text, activity))
        return found

    def _say_end(self, fact: SessionEvent, words: Words) -> _Messages:
        """The answer of a run, and why there is none or only a part."""
        turn = words.turns.get(fact.payload["turn_id"])
        step = words.steps.get((fact.run_id, fact.step or 0), _NO_STEP) if fact.run_id else _NO_STEP
        activity, state, found = activity_of(fact.run_id, fact.step), fact.payload.get("state"), []
        if step.reasoning.strip():
            found.append(message_types.thinking(step.reasoning, reasoning_of(activity)))
        if turn and turn.content.strip():
            found.append(message_types.answer(turn.content, activity, is_partial=state != "complete"))
        if turn and state == "error":
            found.append(message_types.error(turn.error_message or "The turn failed.", turn.error_code))
        return found

    def _close(self, fact: SessionEvent, words: Words) -> _Messages:
        """The message that says that the agent does not work any more."""
        run_id = fact.run_id
        signal = self._signals.pop(run_id, {}) if run_id else {}
        others = [other for other in self._open if not self.workstream_of(other)]
        if run_id is None or others or self.workstream_of(run_id):
            return []
        usage = _usage(fact.payload.get("usage") or {})
        if signal.get("signal") == TERMINATE:
            return [message_types.terminated(signal.get("reason", ""))]
        if signal.get("signal") == COMPLETE:
            return [message_types.complete("")]
        if fact.type == runs.RUN_CANCELLED.name:
            return [message_types.stopped(fact.payload.get("message", ""), ack=signal.get("ack", ""))]
        if self._is_interactive:
            return [message_types.idle(token_usage=usage)]
        return [message_types.complete(words.answers.get(run_id, ""), token_usage=usage)]

    def _say_waiting(self, fact: SessionEvent, words: Words) -> _Messages:
        if fact.payload.get("waiting_on") != "retry":
            return []
        text = f"{fact.payload.get('reason') or 'The model did not answer.'} Trying again."
        return [message_types.warning(text, until=fact.payload.get("until"))]

    def _say_approval(self, fact: SessionEvent, words: Words) -> _Messages:
        return [input_requests.approval_request(fact.payload, allowed_decisions=self._allowed_decisions)]

    def _say_decision(self, fact: SessionEvent, words: Words) -> _Messages:
        return [input_requests.approval_outcome(fact.payload)]

    def _say_input(self, fact: SessionEvent, words: Words) -> _Messages:
        return [input_requests.question(fact.payload)]

    def _say_plain(self, fact: SessionEvent, words: Words) -> _Messages:
        if fact.type in _CALL_ENDS:
            self._calls.pop(fact.payload["execution_id"], None)
        return [event_messages.PLAIN[fact.type](fact)]

    def _say_posted(self, fact: SessionEvent, words: Words) -> _Messages:
        kept = fact.payload
        return [
            create(
                kept["kind"],
                message=kept.get("text", ""),
                workstream=kept.get("workstream", ""),
                details=kept.get("details"),
            )
        ]


_Maker = Callable[[Projection, SessionEvent, Words], _Messages]
_MAKERS: dict[str, _Maker] = {
    sessions.MESSAGE_RECEIVED.name: Projection._say_question,
    sessions.UPDATE_POSTED.name: Projection._say_posted,
    runs.STEP_COMPLETED.name: Projection._say_step_completed,
    runs.RUN_WAITING.name: Projection._say_waiting,
    tools.TOOL_REQUESTED.name: Projection._say_tool_requested,
    tools.APPROVAL_REQUESTED.name: Projection._say_approval,
    tools.APPROVAL_DECIDED.name: Projection._say_decision,
    tools.INPUT_REQUESTED.name: Projection._say_input,
    **dict.fromkeys(event_messages.PLAIN, Projection._say_plain),
}


def is_stored(facts: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Those that are kept events, live ones left out."""
    return [fact for fact in facts if fact.ts is not None]


def _usage(usage: Mapping[str, int]) -> dict[str, int]:
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    return {"prompt": read, "result": written, "total": read + written} if read or written else {}
