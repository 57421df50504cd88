"""Builds a ModelResponse from the chunks of a stream, or from one whole response."""

import json
from typing import Any

from agents_app.providers import errors
from agents_app.providers.base import ProviderError
from agents_app.providers.chat_completions.reasoning_state import ReasoningState
from agents_app.providers.context_overflow import Overflow
from agents_app.providers.inline_reasoning import BY_TAGS, InlineReasoning
from agents_app.providers.text_repair import StreamRepair, repair
from agents_app.providers.token_usage import merge, read_usage
from agents_app.providers.tool_calls import CallAssembly
from agents_app.types import ModelResponse, ReasoningDelta, TextDelta, Usage

MAX_CHARACTERS = 16_000_000
MAX_CALLS = 128
_CONTEXT_IS_FULL = "model_context_window_exceeded"
_CUT_REASONS = ("length", "content_filter")
# A gateway's reasons of the model's own server, which hold even if the gateway reports a call of a tool.
_NATIVE_LENGTH = ("length", "max_tokens", "max_output_tokens", "MAX_TOKENS")
_DONE = b"[DONE]"


class Assembly:
    """The response under construction: `add` payloads and receive deltas, then `finish`."""

    def __init__(
        self, endpoint: errors.Endpoint, *, limits_output: bool = False, inline_reasoning: str = BY_TAGS
    ) -> None:
        """limits_output: the request sets the most tokens of the answer.
        inline_reasoning: mode of InlineReasoning.
        """
        self._endpoint = endpoint
        self._limits_output = limits_output
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._text_repair = StreamRepair()
        self._reasoning_repair = StreamRepair()
        self._inline = InlineReasoning(inline_reasoning)
        self._calls = CallAssembly()
        self._state = ReasoningState()
        self._characters = 0
        self._finish_reason = ""
        self._usage = Usage()
        self.is_done = False

    def add(self, payload: bytes) -> list[TextDelta | ReasoningDelta]:
        """Add a payload and return its deltas. Raises ProviderError for error objects, invalid JSON and oversize."""
        if payload.strip() == _DONE:
            self.is_done = True
            return []
        chunk = self._parse(payload)
        choices = _first_choice(chunk)
        for place in (chunk, *choices, chunk.get("x_groq")):
            if isinstance(place, dict) and place.get("usage"):
                self._usage = merge(self._usage, read_usage(place["usage"]))
        if chunk.get("error"):
            raise errors.of_error_object(chunk["error"], self._endpoint)
        if chunk.get("object") == "chat.completion" and not any(map(_is_piece, choices)):
            self.is_done = True
        return [delta for choice in choices for delta in self._add_choice(choice)]

    def _parse(self, payload: bytes) -> dict[str, Any]:
        try:
            chunk = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise errors.stream_cut(self._endpoint, "sent invalid data in the middle of its response") from error
        return chunk if isinstance(chunk, dict) else {}

    def report_usage(self, kind: object, error: object, traceback: object) -> None:
        """Add the usage so far to a failure of the call. The exit function of a context."""
        if isinstance(error, ProviderError):
            error.usage = self._usage

    def finish(self) -> tuple[list[TextDelta | ReasoningDelta], ModelResponse]:
        """Return the last deltas, if any, and the response.

        Raises ProviderError if the stream was cut off, or if the request has left no room for an answer.
        """
        self._check_end()
        deltas = self._deltas(self._text_repair.finish(), self._reasoning_repair.finish())
        is_cut = self._finish_reason in (*_CUT_REASONS, _CONTEXT_IS_FULL)
        deltas += self._split_deltas(*self._inline.finish(is_answered=not is_cut and not self._calls.count))
        if self._finish_reason == _CONTEXT_IS_FULL:
            self._finish_reason = "length"
        return deltas, self._response()

    def _check_end(self) -> None:
        if not self._finish_reason and not self.is_done:
            raise errors.stream_cut(self._endpoint, "stopped in the middle of its response")
        if self._had_no_room():
            raise errors.too_long(self._endpoint, Overflow(request_tokens=self._usage.input_tokens or None))

    def _response(self) -> ModelResponse:
        calls = self._calls.finish(is_cut=self._finish_reason in _CUT_REASONS)
        return ModelResponse(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            finish_reason=self._reason(has_calls=bool(calls)),
            usage=self._usage,
            dialect_state=self._state.state(self._endpoint, self._calls.extras) if calls else None,
        )

    def _had_no_room(self) -> bool:
        """Return whether the context was full before the first token of the answer.

        Servers that cut long prompts, such as Ollama, do not report it as an error.
        """
        if self._text or self._calls.count:
            return False
        has_reasoned = self._reasoning or self._usage.reasoning_tokens
        is_cut = self._finish_reason == "length" and not has_reasoned and not self._limits_output
        return is_cut or self._finish_reason == _CONTEXT_IS_FULL

    def _reason(self, *, has_calls: bool) -> str:
        """Return the finish reason. Servers disagree on the one for tool calls: it is derived from the calls."""
        if self._finish_reason in _CUT_REASONS:
            return self._finish_reason
        if has_calls:
            return "tool_calls"
        return "stop" if self._finish_reason in ("", "tool_calls", "function_call") else self._finish_reason[:40]

    def _add_choice(self, choice: dict[str, Any]) -> list[TextDelta | ReasoningDelta]:
        self._finish_reason = _finish_reason(choice) or self._finish_reason
        delta = self._new_part(choice)
        if not isinstance(delta, dict):
            return []
        text = _text(delta.get("content")) or _text(delta.get("refusal"))
        reasoning = self._state.add(delta) or _thinking(delta.get("content"))
        self._characters += len(text) + len(reasoning)
        fragments = delta.get("tool_calls")
        if isinstance(fragments, list):
            self._characters += sum(map(self._calls.add, fragments))
        if self._characters > MAX_CHARACTERS or self._calls.count > MAX_CALLS:
            raise errors.too_large(self._endpoint)
        return self._deltas(
            self._text_repair.feed(text) if text else "", self._reasoning_repair.feed(reasoning) if reasoning else ""
        )

    def _new_part(self, choice: dict[str, Any]) -> Any:
        """Return what a choice adds. Perplexity sends the whole message beside the delta, also in each chunk."""
        delta, message = choice.get("delta"), choice.get("message")
        is_empty = not isinstance(delta, dict) or not any(value for name, value in delta.items() if name != "role")
        return message if message and is_empty and not self._characters else delta

    def _deltas(self, text: str, reasoning: str) -> list[TextDelta | ReasoningDelta]:
        inline, text = self._inline.feed(text) if text else ("", "")
        return self._split_deltas(reasoning + inline, text)

    def _split_deltas(self, reasoning: str, text: str) -> list[TextDelta | ReasoningDelta]:
        deltas: list[TextDelta | ReasoningDelta] = []
        if reasoning:
            self._reasoning.append(reasoning)
            deltas.append(ReasoningDelta(reasoning))
        if text:
            self._text.append(text)
            deltas.append(TextDelta(text))
        return deltas


def _finish_reason(choice: dict[str, Any]) -> str:
    reason = choice.get("finish_reason")
    if not isinstance(reason, str) or not reason:
        return ""
    return "length" if choice.get("native_finish_reason") in _NATIVE_LENGTH else repair(reason)


def _first_choice(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the first choice in a list, which is empty for chunks that only contain the usage."""
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        return []
    return [choice for choice in choices if isinstance(choice, dict) and not choice.get("index")][:1]


def _is_piece(choice: dict[str, Any]) -> bool:
    """Return whether more follows on a choice, although its chunk is named like a whole response."""
    return "delta" in choice and not choice.get("finish_reason")


def _thinking(content: Any) -> str:
    """Return the text of the reasoning among the content parts, where Mistral's servers send it."""
    parts = content if isinstance(content, list) else ()
    return "".join(
        _text(part.get("thinking")) for part in parts if isinstance(part, dict) and part.get("type") == "thinking"
    )


def _text(value: Any) -> str:
    """Return a text, or the joined text parts of a list of content parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return ""
