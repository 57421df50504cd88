"""A run as the `response.*` events of a streamed response.

Sequence numbers are built from the step and the position in it, not counted. A client resumes behind any of them,
however the text was cut into pieces on its first connection.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sessions_app.conversation.citations import Citation
from sessions_app.events import CITATIONS_ADDED, STEP_CLOSING
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.append_only_text import TEXT, AppendedText
from sessions_app.surfaces.base.step_parts import CallEnded, CallStarted, see_call
from sessions_app.surfaces.openai import responses
from sessions_app.surfaces.openai.annotations import annotations_of
from sessions_app.surfaces.openai.responses import AskedQuestion, ResponseContext, text_part
from tools_app.events import APPROVAL_REQUESTED, INPUT_REQUESTED
from tools_app.types.questions import Question, text_of

Event = dict[str, Any]

# Positions of a step's events: its text from 16 on, or from _LATE on for a client that joined after a crash; the end
# of its message behind any text, which may turn out shorter than what was sent before a crash; its calls; then their
# ends; then the next step.
_STEP, _TEXT_PLACE, _DONE_PLACE, _CALL_PLACE, _END_PLACE, _CALL = 1 << 32, 16, 1 << 29, 1 << 30, 1 << 31, 16
_LATE = 1 << 28
_RETURNED_PLACE = 1 << 30  # behind the ends of a step's calls: those that the client has to make


def has_text(after: int) -> bool:
    """Return whether a client with that last sequence number may have text of a claim that died."""
    return _TEXT_PLACE < after % _STEP < _LATE


class ResponseEvents:
    """Encodes one run. after: the last sequence number that the client has; events up to it are left out."""

    def __init__(self, context: ResponseContext, after: int = -1) -> None:
        self._context = context
        self._after = after
        self._texts: dict[int, AppendedText] = {}
        self._lengths: dict[int, int] = {}
        self._items: list[Event] = []  # output items so far, by output index
        self._open: int | None = None  # the step whose message is open
        self._calls: dict[str, tuple[int, int]] = {}  # by execution: output index, step
        self._cited: dict[int, list[Citation]] = {}
        self._ended = 0  # number of calls that have ended
        self._last_step = context.first_step
        self._client_tools = {tool["name"] for tool in context.options.client_tools or ()}

    def begin(self) -> list[Event]:
        whole = responses.response(self._context, "in_progress", [])
        created = {**whole, "status": "queued"} if self._context.note.get("background") else whole
        first = self._event("response.created", 0, response=created)
        return self._fresh(first, self._event("response.in_progress", 1, response=whole))

    def see(self, event: SessionEvent) -> list[Event]:
        """Return the events of the response for an event of the run."""
        events: list[Event] = []
        if event.type == INPUT_REQUESTED.name:
            return self._fresh(*self._close_message(), *self._ask_user(event))
        if event.parent_run_id and event.type != APPROVAL_REQUESTED.name:
            return events
        if event.step is not None and event.type in (*TEXT, *STEP_CLOSING):
            events += self._see_text(event, event.step)
        if event.type == CITATIONS_ADDED.name and event.step is not None:
            added = CITATIONS_ADDED.payload(event)
            self._cited[event.step] = [Citation.from_dict(cited) for cited in added["citations"]]
        elif event.step is not None and event.type in STEP_CLOSING:
            events += self._close_message(event.payload["text_length"])
        match see_call(event):
            case CallStarted() as call if event.step is not None:
                if call.tool in self._client_tools:  # its arguments follow at the end, unmasked
                    self._last_step = max(self._last_step, event.step)
                else:
                    events += self._begin_call(event.step, call)
            case CallEnded() as ended:
                events += self._end_call(ended)
        if event.type == APPROVAL_REQUESTED.name and event.parent_run_id:
            events += self._ask(event)
        return self._fresh(*events)

    def end(self, whole: Mapping[str, Any]) -> list[Event]:
        """Return the last events. whole: the stored response."""
        kind = {"completed": "completed", "incomplete": "incomplete"}.get(whole["status"], "failed")
        last = self._event(f"response.{kind}", (self._last_step + 1) * _STEP, response=dict(whole))
        calls = [item for item in whole["output"] if item["type"] == "function_call"]
        returned = [event for number, call in enumerate(calls) for event in self._return_call(number, call)]
        return [*self._fresh(*self._checked_answer(whole), *self._close_message(), *returned), last]

    def _return_call(self, number: int, call: Event) -> list[Event]:
        """Return the events of a call that the client has to make. number: its place among them."""
        self._items.append(call)
        where = {"output_index": len(self._items) - 1}
        item, arguments = {"item_id": call["id"], **where}, call["arguments"]
        place = self._last_step * _STEP + _END_PLACE + _RETURNED_PLACE + number * _CALL
        begun = {**call, "arguments": "", "status": "in_progress"}
        return [
            self._event("response.output_item.added", place, **where, item=begun),
            self._event("response.function_call_arguments.delta", place + 1, **item, delta=arguments),
            self._event(
                "response.function_call_arguments.done", place + 2, **item, name=call["name"], arguments=arguments
            ),
            self._event("response.output_item.done", place + 3, **where, item=call),
        ]

    def _checked_answer(self, whole: Mapping[str, Any]) -> list[Event]:
        """Return the events of an answer with a JSON Schema, which has not been sent before."""
        is_structured = self._context.options.output_schema is not None
        item = next((item for item in reversed(whole["output"]) if item["type"] == "message"), None)
        if not is_structured or item is None or whole["status"] != "completed":
            return []
        text = self._texts[self._last_step] = AppendedText()
        text.replace(item["content"][0]["text"])
        return self._add_text(self._last_step, text.sent)

    def _see_text(self, event: SessionEvent, step: int) -> list[Event]:
        self._last_step = max(self._last_step, step)
        if self._context.options.output_schema is not None:
            return []  # it is sent once it is known to match the schema: it could not be taken back
        piece = self._texts.setdefault(step, AppendedText()).see(event)
        had_late_text = self._after // _STEP == step and self._after % _STEP >= _LATE
        return self._add_text(step, piece, _LATE if event.is_partial or had_late_text else _TEXT_PLACE)

    def _add_text(self, step: int, piece: str, place: int = _TEXT_PLACE) -> list[Event]:
        if not piece:
            return []
        events = self._open_message(step)
        start = self._lengths.get(step, 0)
        end = self._lengths[step] = start + len(piece)
        place += step * _STEP
        known = self._after - place  # number of its characters that the client has
        if known >= end:
            return events
        piece = piece[max(0, known - start) :]
        where = {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1, "content_index": 0}
        return [*events, self._event("response.output_text.delta", place + end, **where, delta=piece, logprobs=[])]

    def _open_message(self, step: int) -> list[Event]:
        if self._open == step:
            return []
        self._open = step
        item = responses.message_item(self._context.run_id, step, "in_progress")
        self._items.append(item)
        index, base = len(self._items) - 1, step * _STEP
        part = text_part("", [])
        where = {"item_id": item["id"], "output_index": index, "content_index": 0}
        return [
            self._event("response.output_item.added", base + 2, output_index=index, item=dict(item)),
            self._event("response.content_part.added", base + 3, **where, part=part),
        ]

    def _close_message(self, length: int | None = None) -> list[Event]:
        """Return the events that end the open message. length: of the stored text, a suffix of the sent text."""
        if self._open is None:
            return []
        step, self._open = self._open, None
        text = self._texts[step].sent
        item_id = responses.message_id(self._context.run_id, step)
        index = next(index for index, item in enumerate(self._items) if item["id"] == item_id)
        shift = 0 if length is None else max(0, len(text) - length)
        annotations = annotations_of(self._cited.get(step, ()), shift=shift)
        part = text_part(text, annotations)
        item = {**self._items[index], "status": "completed", "content": [part]}
        where = {"item_id": item["id"], "output_index": index, "content_index": 0}
        place = step * _STEP + _DONE_PLACE
        kind = "response.output_text.annotation.added"
        added = [
            self._event(kind, place + 1 + number, **where, annotation_index=number, annotation=annotation)
            for number, annotation in enumerate(annotations)
        ]
        place += len(added)
        return [
            *added,
            self._event("response.output_text.done", place + 1, **where, text=text, logprobs=[]),
            self._event("response.content_part.done", place + 2, **where, part=part),
            self._event("response.output_item.done", place + 3, output_index=index, item=item),
        ]

    def _begin_call(self, step: int, call: CallStarted) -> list[Event]:
        self._last_step = max(self._last_step, step)
        item = responses.call_item(call.execution_id, call.tool, call.arguments)
        self._items.append(item)
        index = len(self._items) - 1
        place = step * _STEP + _CALL_PLACE + call.place * _CALL
        self._calls[call.execution_id] = index, step
        where = {"item_id": item["id"], "output_index": index}
        return [
            self._event("response.output_item.added", place, output_index=index, item={**item, "arguments": ""}),
            self._event("response.mcp_call.in_progress", place + 1, **where),
            self._event("response.mcp_call_arguments.done", place + 2, **where, arguments=item["arguments"]),
        ]

    def _end_call(self, call: CallEnded) -> list[Event]:
        if call.execution_id not in self._calls:
            return []
        index, step = self._calls[call.execution_id]
        kind = "failed" if call.error else "completed"
        ended = {"output": call.output, "error": responses.call_error(call.error), "status": kind}
        item = self._items[index] = {**self._items[index], **ended}
        place = step * _STEP + _END_PLACE + self._ended * _CALL
        self._ended += 1
        return [
            self._event(f"response.mcp_call.{kind}", place, item_id=item["id"], output_index=index),
            self._event("response.output_item.done", place + 1, output_index=index, item=item),
        ]

    def _ask(self, event: SessionEvent) -> list[Event]:
        """Return the events of an item for the approval that a workstream asks for."""
        asked = APPROVAL_REQUESTED.payload(event)
        asker = asked.get("asked_by") or event.workstream  # events of earlier releases have no name for people
        item = responses.approval_item(asked["approval_id"], asked["tool"], asked["arguments"], asker)
        self._items.append(item)
        index = len(self._items) - 1
        place = self._last_step * _STEP + _END_PLACE + self._ended * _CALL
        self._ended += 1
        return [
            self._event("response.output_item.added", place, output_index=index, item=item),
            self._event("response.output_item.done", place + 1, output_index=index, item=item),
        ]

    def _ask_user(self, event: SessionEvent) -> list[Event]:
        """Return the events of the message with a question, which ends the response."""
        asked = INPUT_REQUESTED.payload(event)
        questions = [Question.from_json(question) for question in asked.get("questions", ())]
        text = text_of(questions) if questions else asked["question"]  # an earlier release stored no form
        item = responses.question_item(AskedQuestion(UUID(asked["request_id"]), text))
        self._items.append(item)
        [part] = item["content"]
        index, place = len(self._items) - 1, self._last_step * _STEP + _END_PLACE + self._ended * _CALL
        self._ended += 1
        begun = {**item, "status": "in_progress", "content": []}
        where = {"item_id": item["id"], "output_index": index, "content_index": 0}
        return [
            self._event("response.output_item.added", place, output_index=index, item=begun),
            self._event("response.content_part.added", place + 1, **where, part=text_part("", [])),
            self._event("response.output_text.delta", place + 2, **where, delta=text, logprobs=[]),
            self._event("response.output_text.done", place + 3, **where, text=text, logprobs=[]),
            self._event("response.content_part.done", place + 4, **where, part=part),
            self._event("response.output_item.done", place + 5, output_index=index, item=item),
        ]

    def _event(self, kind: str, number: int, **fields: Any) -> Event:
        return {"type": kind, "sequence_number": number, **fields}

    def _fresh(self, *events: Event) -> list[Event]:
        return [event for event in events if event["sequence_number"] > self._after]
