"""A run and its workstreams as the events of AG-UI 1.0. No database, no clock.

Of what the client has, by the messages of its request, nothing is sent again: so a client that connects again, or goes
on after an interrupt, shows each text, call and result once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from agents_app import events as runs
from agents_app.types.child_runs import child_id_of
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.step_text import StepText
from sessions_app.surfaces.ag_ui.interrupts import interrupt_of
from sessions_app.surfaces.ag_ui.requests import RunRequest
from sessions_app.surfaces.base.function_tools import call_id_of
from sessions_app.surfaces.base.step_parts import CallEnded, CallStarted, Kind, Part, PartChange, StepParts, see_call
from tools_app import events as tools
from tools_app.types import ExecutionView

Event = dict[str, Any]
_MODEL = (runs.TEXT_DELTA.name, runs.SNAPSHOT.name, runs.REASONING_DELTA.name, tools.TOOL_REQUESTED.name)
_FAILED = (runs.RUN_FAILED.name, runs.RUN_TIMED_OUT.name)


class _Call(NamedTuple):
    run_id: UUID
    is_client: bool


@dataclass
class _Child:
    """A child run. is_open: its start was sent on this connection."""

    name: str
    parent_id: UUID
    is_open: bool = False


class RunEvents:
    """Encodes a run for one connection.

    may_decide: the client may decide approvals; else a call that waits for one is a call that works.
    asks: the interrupts that are open, by id.
    answered: by id, whether one that was closed got an answer.
    returned: ids of the open calls that the client has to make.
    """

    def __init__(self, run_id: UUID, request: RunRequest, *, may_decide: bool) -> None:
        self.asks: dict[str, Event] = {}
        self.answered: dict[str, bool] = {}
        self.returned: set[str] = set()
        self._run_id = run_id
        self._request = request
        self._may_decide = may_decide
        self._client_tools = {tool["name"] for tool in request.options.client_tools or ()}
        self._calls: dict[str, _Call] = {}  # those that are open, by execution
        self._launches: dict[UUID, tuple[str, str]] = {}  # by child run: the call that starts it, and its task
        self._children: dict[UUID, _Child] = {}
        self._waits_for_children = False
        self._state: dict[str, Any] = {}
        self._begin_connection()

    def _begin_connection(self) -> None:
        self._messages: dict[str, Event] = {message["id"]: dict(message) for message in self._request.messages}
        self._known = set(self._request.known_calls)
        self._texts: dict[str, StepText] = {}
        self._parts = StepParts(self._part)
        self._open_step: str | None = None
        self._has_state = False

    def skip(self, events: Iterable[SessionEvent]) -> None:
        """See events that an earlier connection has shown."""
        for event in events:
            self.see(event)
        for child in self._children.values():
            child.is_open = False
        self._begin_connection()

    def begin(self) -> list[Event]:
        """Return the first events. They include the messages of a client that continues a run."""
        ids = {"threadId": self._request.thread_id, "runId": self._request.run_id}
        own = {"protocolVersion": "1.0", "metadata": {"komand": {"runId": str(self._run_id)}}}
        known = [self._messages_snapshot()] if self._request.resume or self._request.outputs else []
        return [{"type": "RUN_STARTED", **ids, **own}, *known]

    def see(self, event: SessionEvent) -> list[Event]:
        """Return the events for one of the session, other than the end of the run."""
        run_id = event.run_id
        sent = self._see_child(event) if event.parent_run_id else []
        if run_id is None or (run_id != self._run_id and run_id not in self._children):
            return []
        if run_id == self._run_id and event.type in _MODEL and event.step is not None:
            self._waits_for_children = False
            sent += self._begin_step(f"step {event.step + 1}")
        for change in self._parts.see(event):
            sent += self._part_events(change)
        match see_call(event):
            case CallStarted() as call:
                sent += self._begin_call(event, run_id, call)
            case CallEnded() as ended:
                sent += self._end_call(ended)
        return [*sent, *self._see_other(event, run_id)]

    def _see_other(self, event: SessionEvent, run_id: UUID) -> list[Event]:
        is_root = run_id == self._run_id
        if interrupt := interrupt_of(event):
            if self._may_decide or event.type == tools.INPUT_REQUESTED.name:
                self.asks[interrupt["id"]] = self._of(run_id, interrupt)
        elif event.type == tools.APPROVAL_DECIDED.name:
            decided = tools.APPROVAL_DECIDED.payload(event)
            self._close_ask(decided["approval_id"], is_answered=bool(decided["decision"]))
        elif event.type == tools.CALLS_RETURNED.name:
            self.returned |= set(tools.CALLS_RETURNED.payload(event)["execution_ids"])
        elif event.type == runs.STEP_COMPLETED.name and is_root:  # a step without calls, and the run goes on
            self._waits_for_children = True
        elif event.type == runs.RUN_WAITING.name and is_root:
            self._waits_for_children = runs.RUN_WAITING.payload(event)["waiting_on"] == "children"
        elif event.type == tools.PLAN_UPDATED.name and is_root:
            return self._change_state("plan", tools.PLAN_UPDATED.payload(event)["tasks"])
        elif event.type == tools.PROGRESS_REPORTED.name and is_root:
            progress = tools.PROGRESS_REPORTED.payload(event)
            return self._change_state("progress", {name: progress[name] for name in ("text", "percent", "phase")})
        return []

    @property
    def is_paused(self) -> bool:
        """Return whether the run cannot go on before the client or its user acts."""
        asking = {ask["toolCallId"] for ask in self.asks.values()}
        own = {execution_id for execution_id, call in self._calls.items() if call.run_id == self._run_id}
        works = [each for each in own - self.returned if call_id_of(each) not in asking]
        if self.returned or any("subagentRunId" not in ask for ask in self.asks.values()):
            return not works
        return bool(self.asks) and self._waits_for_children

    def pause(self, calls: Sequence[ExecutionView]) -> list[Event]:
        """Return the last events of a run that waits. calls: those that the client has to make."""
        sent = []
        for call in calls:
            sent += self._call_events(self._run_id, call.step, call_id_of(call.id), call.tool, call.arguments)
        sent += self._close()
        if not self.asks:
            pending = [call_id_of(call.id) for call in calls]
            return [*sent, self._finished({"type": "success", "pendingToolCallIds": pending})]
        state = [self._state_snapshot()] if self._state or self._request.state else []
        outcome = {"type": "interrupt", "interrupts": list(self.asks.values())}
        return [*sent, *state, self._messages_snapshot(), self._finished(outcome)]

    def end(self, event: SessionEvent) -> list[Event]:
        """Return the last events. event: of one of the types in RUN_ENDS."""
        end = runs.RUN_COMPLETED.payload(event)
        usage = {"inputTokens": end["usage"]["input_tokens"], "outputTokens": end["usage"]["output_tokens"]}
        if event.type in _FAILED:
            error = {"type": "RUN_ERROR", "message": end["message"] or "The run failed.", "usage": [usage]}
            return [*self._close(), {**error, "code": end["code"] or "failed"}]
        outcome = {"type": "success" if event.type == runs.RUN_COMPLETED.name else "cancelled"}
        return [*self._close(), {**self._finished(outcome), "usage": [usage]}]

    # Texts and steps.

    def _part(self, run_id: UUID, step: int, kind: Kind) -> Part:
        """Return a part as the client has it."""
        text = StepText()
        known = self._messages.get(_message_id(run_id, step, kind), {}).get("content")
        if isinstance(known, str) and known:
            text.add(known)
            text.reset()
        return Part(run_id, step, kind, text)

    def _part_events(self, change: PartChange) -> list[Event]:
        part, sent = change.part, list[Event]()
        message_id = _message_id(part.run_id, part.step, part.kind)
        role, prefix = ("assistant", "TEXT") if part.kind == "text" else ("reasoning", "REASONING")
        self._messages.setdefault(message_id, self._of(part.run_id, {"id": message_id, "role": role}))
        self._texts[message_id] = part.text
        if change.starts:
            opened = ["REASONING_START"] if part.kind == "reasoning" else []
            sent += [self._event(part.run_id, kind, messageId=message_id) for kind in opened]
            sent.append(self._event(part.run_id, f"{prefix}_MESSAGE_START", messageId=message_id, role=role))
        if change.restarts:  # the only way to take back what the client has
            sent.append(self._messages_snapshot())
        elif change.piece:
            sent.append(self._event(part.run_id, f"{prefix}_MESSAGE_CONTENT", messageId=message_id, delta=change.piece))
        if change.ends:
            closed = ["REASONING_END"] if part.kind == "reasoning" else []
            kinds = [f"{prefix}_MESSAGE_END", *closed]
            sent += [self._event(part.run_id, kind, messageId=message_id) for kind in kinds]
        return sent

    def _begin_step(self, name: str) -> list[Event]:
        if self._open_step == name:
            return []
        ended, self._open_step = self._end_step(), name
        return [*ended, {"type": "STEP_STARTED", "stepName": name}]

    def _end_step(self) -> list[Event]:
        name, self._open_step = self._open_step, None
        return [{"type": "STEP_FINISHED", "stepName": name}] if name else []

    # Calls.

    def _begin_call(self, event: SessionEvent, run_id: UUID, call: CallStarted) -> list[Event]:
        call_id, is_client = call_id_of(call.execution_id), call.tool in self._client_tools and run_id == self._run_id
        self._calls[call.execution_id] = _Call(run_id, is_client)
        if child_id := child_id_of(call.tool, UUID(call.execution_id), call.arguments):
            self._launches[child_id] = call_id, str(call.arguments.get("instruction") or "")
        if is_client:  # its arguments follow at the end, unmasked
            return []
        return self._call_events(run_id, event.step or 0, call_id, call.tool, call.arguments)

    def _call_events(
        self, run_id: UUID, step: int, call_id: str, tool: str, arguments: Mapping[str, Any]
    ) -> list[Event]:
        if call_id in self._known:
            return []
        self._known.add(call_id)
        text, parent = json.dumps(arguments, ensure_ascii=False), _message_id(run_id, step, "text")
        message = self._messages.setdefault(parent, self._of(run_id, {"id": parent, "role": "assistant"}))
        function = {"name": tool, "arguments": text}
        message["toolCalls"] = [
            *message.get("toolCalls", ()),
            {"id": call_id, "type": "function", "function": function},
        ]
        return [
            self._event(run_id, "TOOL_CALL_START", toolCallId=call_id, toolCallName=tool, parentMessageId=parent),
            self._event(run_id, "TOOL_CALL_ARGS", toolCallId=call_id, delta=text),
            self._event(run_id, "TOOL_CALL_END", toolCallId=call_id),
        ]

    def _end_call(self, ended: CallEnded) -> list[Event]:
        call = self._calls.pop(ended.execution_id, None)
        call_id, message_id = call_id_of(ended.execution_id), f"result_{UUID(ended.execution_id).hex}"
        for ask_id in [each for each, ask in self.asks.items() if ask["toolCallId"] == call_id]:
            self._close_ask(ask_id, is_answered=ended.error is None)
        self.returned.discard(ended.execution_id)
        if call is None or call.is_client or message_id in self._messages:
            return []
        content = ended.error if ended.output is None else ended.output
        message = {"id": message_id, "role": "tool", "toolCallId": call_id, "content": content or ""}
        self._messages[message_id] = self._of(call.run_id, message)
        fields = {"messageId": message_id, "toolCallId": call_id, "content": content or "", "role": "tool"}
        return [self._event(call.run_id, "TOOL_CALL_RESULT", **fields)]

    def _close_ask(self, ask_id: str, *, is_answered: bool) -> None:
        self.asks.pop(ask_id, None)
        self.answered.setdefault(ask_id, is_answered)

    # Workstreams.

    def _see_child(self, event: SessionEvent) -> list[Event]:
        run_id, parent_id = event.run_id, event.parent_run_id
        if run_id is None or parent_id is None or (parent_id != self._run_id and parent_id not in self._children):
            return []
        if event.type == runs.WORKSTREAM_ENDED.name:
            ended = runs.WORKSTREAM_ENDED.payload(event)
            return self._end_child(run_id, ended["status"], ended["summary"])
        if event.type in runs.RUN_ENDS and run_id in self._children:
            return []
        name = event.payload.get("name") if event.type == runs.WORKSTREAM_LAUNCHED.name else event.workstream
        self._children.setdefault(run_id, _Child(name or event.workstream or "workstream", parent_id))
        return self._open_child(run_id)

    def _open_child(self, run_id: UUID) -> list[Event]:
        child = self._children.get(run_id)
        if child is None or child.is_open:
            return []
        child.is_open = True
        above = self._open_child(child.parent_id)
        call_id, task = self._launches.get(run_id, ("", ""))
        parent = str(child.parent_id) if child.parent_id != self._run_id else ""
        found = {"description": task, "parentSubagentRunId": parent, "parentToolCallId": call_id}
        fields = {name: value for name, value in found.items() if value}
        return [*above, {"type": "SUBAGENT_STARTED", "subagentRunId": str(run_id), "name": child.name, **fields}]

    def _end_child(self, run_id: UUID, status: str, summary: str) -> list[Event]:
        child = self._children.get(run_id)
        if child is None or not child.is_open:
            return []
        child.is_open = False
        own = {"subagentRunId": str(run_id)}
        ends = [event for change in self._parts.end_all(run_id) for event in self._part_events(change)]
        if status == "completed":
            return [*ends, {"type": "SUBAGENT_FINISHED", **own, "result": summary, "outcome": {"type": "success"}}]
        return [*ends, {"type": "SUBAGENT_ERROR", **own, "message": summary or status, "code": status}]

    # State, and what ends.

    def _change_state(self, name: str, value: Any) -> list[Event]:
        self._state[name] = value
        if not self._has_state:
            return [self._state_snapshot()]
        return [{"type": "STATE_DELTA", "delta": [{"op": "add", "path": f"/{name}", "value": value}]}]

    def _state_snapshot(self) -> Event:
        self._has_state = True
        return {"type": "STATE_SNAPSHOT", "snapshot": {**self._request.state, **self._state}}

    def _messages_snapshot(self) -> Event:
        texts = {message_id: {"content": text.sent} for message_id, text in self._texts.items()}
        messages = [{**message, **texts.get(message_id, {})} for message_id, message in self._messages.items()]
        return {"type": "MESSAGES_SNAPSHOT", "messages": messages}

    def _close(self) -> list[Event]:
        """Return the ends of all that is open. Workstreams that go on are suspended."""
        sent = [event for change in self._parts.end_all() for event in self._part_events(change)]
        for run_id, child in reversed(self._children.items()):
            if child.is_open:
                child.is_open = False
                waits = [ask["id"] for ask in self.asks.values() if ask.get("subagentRunId") == str(run_id)]
                outcome = {"type": "suspended", **({"interruptIds": waits} if waits else {})}
                sent.append({"type": "SUBAGENT_FINISHED", "subagentRunId": str(run_id), "outcome": outcome})
        return [*sent, *self._end_step()]

    def _finished(self, outcome: Event) -> Event:
        ids = {"threadId": self._request.thread_id, "runId": self._request.run_id}
        return {"type": "RUN_FINISHED", **ids, "outcome": outcome}

    def _of(self, run_id: UUID, item: Event) -> Event:
        """Return an event, a message or an interrupt with the workstream that it belongs to."""
        return item if run_id == self._run_id else {**item, "subagentRunId": str(run_id)}

    def _event(self, run_id: UUID, kind: str, /, **fields: Any) -> Event:
        return self._of(run_id, {"type": kind, **fields})


def _message_id(run_id: UUID, step: int, kind: Kind) -> str:
    return f"{kind}_{run_id.hex}_{step}"
