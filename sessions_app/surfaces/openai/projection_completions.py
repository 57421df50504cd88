"""A run as a `chat.completion` object or as the `chat.completion.chunk` objects of a stream."""

from collections.abc import Iterable
from typing import Any

from agents_app.types import Usage
from audit_app.kernel.json_text import as_json
from sessions_app.conversation.citations import Citation
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.append_only_text import BREAK, AppendedTexts
from sessions_app.surfaces.base.function_tools import call_id_of
from sessions_app.surfaces.openai.annotations import completion_annotations
from sessions_app.surfaces.openai.client_tools import Part
from tools_app.events import APPROVAL_REQUESTED, ApprovalRequested
from tools_app.types import ExecutionView


class Completion:
    """Encodes one answer of a run. The texts of all its steps are one content.

    answer_id: id of the answer, see `responses.answer_id`.
    created: seconds since 1970.
    is_structured: the answer has a JSON Schema. It is sent once it is known to match, and no other text: nothing that
        was sent can be taken back.
    """

    def __init__(self, answer_id: str, model: str, created: int, *, is_structured: bool = False) -> None:
        self.is_structured = is_structured
        self._head = {"id": f"chatcmpl-{answer_id}", "created": created, "model": model}
        self._texts = AppendedTexts()

    def whole(self, text: str, part: Part, citations: Iterable[Citation] = ()) -> dict[str, Any]:
        """Return the whole answer."""
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if part.calls:
            message |= {"content": text or None, "tool_calls": [_call(call) for call in part.calls]}
        message["annotations"] = completion_annotations(citations)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(part)}
        usage = _with_team(part)
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage}

    def begin(self) -> dict[str, Any]:
        return self._chunk({"role": "assistant", "content": ""})

    def see(self, event: SessionEvent) -> list[dict[str, Any]]:
        """Return the chunks for an event of the run."""
        if event.type == APPROVAL_REQUESTED.name and not self.is_structured:
            return [self.add_paragraph(approval_text(APPROVAL_REQUESTED.payload(event)))]
        piece = "" if self.is_structured else self._texts.see(event)
        return [self._chunk({"content": piece})] if piece else []

    def add_paragraph(self, text: str) -> dict[str, Any]:
        """Return a chunk for text that is not the model's."""
        content = BREAK + text if self._texts.has_text else text
        self._texts.interrupt()
        return self._chunk({"content": content})

    def call(self, index: int, call: ExecutionView) -> dict[str, Any]:
        """Return the chunk of a call that the client has to make. index: its place among them."""
        return self._chunk({"tool_calls": [{"index": index, **_call(call)}]})

    def finish(self, finish_reason: str) -> dict[str, Any]:
        return self._chunk({}, finish_reason)

    def usage(self, part: Part) -> dict[str, Any]:
        return {**self._chunk({}), "choices": [], "usage": _with_team(part)}

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


def approval_text(asked: ApprovalRequested) -> str:
    """Return what a client shows of a call that waits for an approval."""
    address = f"POST /api/approvals/{asked['approval_id']}/decide"
    return f"Waiting for approval of {asked['tool']}. {asked['reason']} Decide it by {address}."


def finish_reason(part: Part) -> str:
    if part.calls:
        return "tool_calls"
    return "length" if part.transcript.run.error_code == "length" else "stop"


def _with_team(part: Part) -> dict[str, Any]:
    """Return the usage of a part of a run and, as a field of ours, that of the run and all runs below it."""
    team = part.transcript.with_workstreams
    return usage_of(part.usage) | ({"with_workstreams": usage_of(team.usage)} if team else {})


def _call(call: ExecutionView) -> dict[str, Any]:
    function = {"name": call.tool, "arguments": as_json(call.arguments)}
    return {"id": call_id_of(call.id), "type": "function", "function": function}


def usage_of(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens": usage.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
