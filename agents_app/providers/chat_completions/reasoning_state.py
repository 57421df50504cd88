"""Reasoning that servers want back within a round of tool calls: collected from a stream, encoded in a message. Pure.

DeepSeek, Moonshot and models behind vLLM continue their reasoning after the results of tools. Gateways send it as
`reasoning_details`, Gemini as a signature in the `extra_content` of a tool call; both check what they get back.
"""

import re
from collections.abc import Sequence
from typing import Any

from agents_app.providers.dialect_state import fields_for, state_of
from agents_app.providers.errors import Endpoint
from agents_app.types import Message

DIALECT = "chat_completions"
TEXT_FIELDS = ("reasoning_content", "reasoning")
ECHOED_FIELDS = (*TEXT_FIELDS, "reasoning_details", "extra_content")
_GROWING = ("text", "summary", "data")
_MAX_DETAILS = 10_000
_SIGNED_MODELS = re.compile(r"gemini-(?:[3-9]|[1-9]\d)", re.IGNORECASE)
_NO_SIGNATURE = "skip_thought_signature_validator"  # the value that Gemini takes for calls that it has not made


class ReasoningState:
    """The parts of a response to send back: `add` each delta, then read `state`."""

    def __init__(self) -> None:
        self._text_field = ""
        self._details: list[dict[str, Any]] = []
        self._extra: dict[str, Any] | None = None

    def add(self, delta: dict[str, Any]) -> str:
        """Add a delta. Return its piece of reasoning."""
        if isinstance(extra := delta.get("extra_content"), dict):
            self._extra = extra
        for name in TEXT_FIELDS:
            text = delta.get(name)
            if isinstance(text, str) and text:
                self._text_field = self._text_field or name
                self._add_details(delta.get("reasoning_details"))
                return text
        return self._add_details(delta.get("reasoning_details"))

    def state(self, endpoint: Endpoint, extras: Sequence[Any]) -> dict[str, Any] | None:
        """Return the state of a response. extras: the `extra_content` of each tool call, None for one without."""
        fields = {
            "text_field": self._text_field,
            "details": self._details,
            "extra": self._extra,
            "extras": list(extras) if any(extras) else [],
        }
        return state_of(DIALECT, endpoint, fields)

    def _add_details(self, pieces: Any) -> str:
        """Add pieces of `reasoning_details`, which grow like text does. Return their text."""
        text = ""
        for piece in pieces if isinstance(pieces, list) else ():
            if not isinstance(piece, dict) or len(self._details) >= _MAX_DETAILS:
                continue
            shown = piece.get("text") or piece.get("summary")
            text += shown if isinstance(shown, str) else ""
            last = self._details[-1] if self._details else None
            if last and all(last.get(name) == piece.get(name) for name in ("type", "index")):
                _extend(last, piece)
            else:
                self._details.append(dict(piece))
        return text


def echoed(message: Message, endpoint: Endpoint, refused: frozenset[str]) -> dict[str, Any]:
    """Return the fields that an assistant message sends back. refused: names that the server does not accept."""
    state = fields_for(message.dialect_state, DIALECT, endpoint)
    fields: dict[str, Any] = {}
    name = state.get("text_field")
    if name in TEXT_FIELDS and message.reasoning and name not in refused:
        fields[name] = message.reasoning
    if state.get("details") and "reasoning_details" not in refused:
        fields["reasoning_details"] = state["details"]
    if state.get("extra") and "extra_content" not in refused:
        fields["extra_content"] = state["extra"]
    return fields


def extras_of(message: Message, endpoint: Endpoint, refused: frozenset[str]) -> list[Any]:
    """Return the `extra_content` of each tool call of a message, None for one without."""
    state = fields_for(message.dialect_state, DIALECT, endpoint)
    extras = [] if "extra_content" in refused else list(state.get("extras", ()))
    return [*extras, *[None] * len(message.tool_calls)][: len(message.tool_calls)]


def sign_foreign_calls(messages: list[dict[str, Any]], model: str) -> None:
    """Mark the calls of other models since the last user message: Gemini 3 refuses calls without a signature."""
    if not _SIGNED_MODELS.search(model):
        return
    for message in reversed(messages):
        if message["role"] == "user":
            return
        calls = message.get("tool_calls", ())
        if calls and "extra_content" not in message and not any("extra_content" in call for call in calls):
            calls[0]["extra_content"] = {"google": {"thought_signature": _NO_SIGNATURE}}


def _extend(detail: dict[str, Any], piece: dict[str, Any]) -> None:
    for name, value in piece.items():
        if name in _GROWING and isinstance(value, str) and isinstance(detail.get(name), str):
            detail[name] += value
        elif value is not None:
            detail[name] = value
