"""Builds a ModelResponse from the events of a stream, or from one whole response."""

import json
from typing import Any

from agents_app.providers import errors
from agents_app.providers.base import ProviderError
from agents_app.providers.context_overflow import Overflow
from agents_app.providers.responses.output_items import OutputItems
from agents_app.providers.token_usage import merge, read_usage
from agents_app.types import ModelResponse, ReasoningDelta, TextDelta, Usage

Deltas = list[TextDelta | ReasoningDelta]

MAX_CHARACTERS = 16_000_000
MAX_CALLS = 128
_DONE = b"[DONE]"
_TEXT = ("response.output_text.delta", "response.refusal.delta")
_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_FINISH_REASONS = {"max_output_tokens": "length", "max_tokens": "length", "content_filter": "content_filter"}


class Assembly:
    """The response under construction: `add` payloads and receive deltas, then `finish`."""

    def __init__(self, endpoint: errors.Endpoint, *, output_limit: int | None = None) -> None:
        """output_limit: the most tokens of the answer, if the request sets it."""
        self._endpoint = endpoint
        self._output_limit = output_limit
        self._items = OutputItems()
        self._places: dict[str, int] = {}  # of items by id, for servers that number none
        self._cut_reason = ""
        self._has_ended = False
        self._usage = Usage()
        self.is_done = False

    def add(self, payload: bytes) -> Deltas:
        """Add a payload and return its deltas. Raises ProviderError for failures, invalid JSON and oversize."""
        if payload.strip() == _DONE:
            self.is_done = True
            return []
        try:
            event = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise errors.stream_cut(self._endpoint, "sent invalid data in the middle of its response") from error
        if not isinstance(event, dict):
            return []
        if event.get("object") == "response":  # of a server that does not stream
            event = {"type": f"response.{event.get('status') or 'completed'}", "response": event}
        deltas = self._take(event)
        if self._items.characters > MAX_CHARACTERS or self._items.calls.count > MAX_CALLS:
            raise errors.too_large(self._endpoint)
        return deltas

    def report_usage(self, kind: object, error: object, traceback: object) -> None:
        """Add the usage so far to a failure of the call. The exit function of a context."""
        if isinstance(error, ProviderError):
            error.usage = self._usage

    def finish(self) -> tuple[Deltas, ModelResponse]:
        """Return the last deltas, if any, and the response.

        Raises ProviderError if the stream was cut off, or if the request has left no room for an answer.
        """
        self._check_end()
        deltas = self._items.finish()
        calls = self._items.calls.finish(is_cut=bool(self._cut_reason))
        response = ModelResponse(
            text=self._items.text,
            reasoning=self._items.reasoning,
            tool_calls=calls,
            finish_reason=self._cut_reason or ("tool_calls" if calls else "length" if self._is_at_limit() else "stop"),
            usage=self._usage,
            dialect_state=self._items.state(self._endpoint) if calls else None,
        )
        return deltas, response

    def _check_end(self) -> None:
        if not self._has_ended:
            raise errors.stream_cut(self._endpoint, "stopped in the middle of its response")
        is_empty = self._items.is_empty and not self._usage.reasoning_tokens
        if self._cut_reason == "length" and is_empty and self._output_limit is None:
            raise errors.too_long(self._endpoint, Overflow(request_tokens=self._usage.input_tokens or None))

    def _is_at_limit(self) -> bool:
        """Return whether the answer has all the tokens that it may have. Ollama reports it as completed then."""
        return self._output_limit is not None and self._usage.output_tokens >= self._output_limit

    def _take(self, event: dict[str, Any]) -> Deltas:
        name, index = event.get("type"), self._place_of(event)
        if name in _TEXT:
            return self._items.add_text(index, event.get("delta"))
        if name in _REASONING:
            return self._items.add_reasoning(index, _part_of(event), event.get("delta"))
        match name:
            case "response.function_call_arguments.delta":
                self._items.add_arguments(index, event.get("delta"))
            case "response.output_item.added":
                self._items.begin(index, event.get("item"))
            case "response.output_item.done":
                return self._items.end(index, event.get("item"))
            case "response.completed" | "response.incomplete":
                return self._end(event.get("response"))
            case "response.failed" | "response.cancelled":
                self._fail(event.get("response"))
            case "error" | None if name or event.get("error"):
                raise errors.of_error_object(event.get("error") or event, self._endpoint)
        return []

    def _end(self, response: Any) -> Deltas:
        """Take the usage, the reason of the end, and the items of which the stream has sent no event."""
        response = response if isinstance(response, dict) else {}
        self._usage = merge(self._usage, read_usage(response.get("usage")))
        details = response.get("incomplete_details")
        if isinstance(details, dict) and (reason := details.get("reason")):
            self._cut_reason = _FINISH_REASONS.get(str(reason), str(reason)[:40])
        elif response.get("status") == "incomplete":
            self._cut_reason = "length"
        self.is_done = self._has_ended = True
        output = response.get("output")
        items = list(enumerate(output)) if isinstance(output, list) else []
        return [
            delta for index, item in items for delta in self._items.end(self._places.get(_id_of(item), index), item)
        ]

    def _place_of(self, event: dict[str, Any]) -> int:
        """Return the place of an event's item. llama.cpp sends no `output_index`: there, items come in their order."""
        index, item_id = event.get("output_index"), event.get("item_id") or _id_of(event.get("item"))
        if isinstance(index, int):
            return index
        return self._places.setdefault(item_id, len(self._places)) if item_id and isinstance(item_id, str) else 0

    def _fail(self, response: Any) -> None:
        response = response if isinstance(response, dict) else {}
        self._usage = merge(self._usage, read_usage(response.get("usage")))
        error = response.get("error") or {"code": "server_error", "message": "The response failed without a reason."}
        raise errors.of_error_object(error, self._endpoint)


def _id_of(item: Any) -> str:
    return str(item.get("id") or "") if isinstance(item, dict) else ""


def _part_of(event: dict[str, Any]) -> int:
    """Return the place of a piece of reasoning among the parts of its item."""
    index = event.get("summary_index", event.get("content_index"))
    return index if isinstance(index, int) else 0
