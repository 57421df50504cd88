"""The chunks of a chat completion as bytes, as OpenAI's servers send them, and deviating ones."""

import json
from collections.abc import Iterator
from typing import Any

from tests.fakes.directives import Directives

DONE = b"data: [DONE]\n\n"


class Chunks:
    """The chunks of one answer. Text chunks are cut from a template: they are most of the work."""

    def __init__(self, model: str, number: int) -> None:
        self._base = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": model}
        before, after = self._line({"content": "@"}).split(b'"@"')
        self._before, self._after = before, after

    def text(self, text: str) -> bytes:
        return self._before + json.dumps(text).encode() + self._after

    def delta(self, delta: dict[str, Any]) -> bytes:
        return self._line(delta)

    def finish(self, reason: str) -> bytes:
        return self._line({}, reason)

    def usage(self, input_tokens: int, output_tokens: int) -> bytes:
        usage = {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        }
        return _event({**self._base, "choices": [], "usage": usage})

    def _line(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _event({**self._base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def tokens(directives: Directives) -> list[str]:
    """The text of an answer in tokens: the one asked for, or `tok0 tok1 …`, the same every time."""
    if directives.text:
        return [word if at == 0 else f" {word}" for at, word in enumerate(directives.text.split(" "))]
    return [f"tok{number} " for number in range(directives.tokens)]


def call_fragments(directives: Directives, calls: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """The entries of `delta.tool_calls`, in order, worded as the directives ask."""
    for number, (name, arguments) in enumerate(calls):
        index = 0 if directives.same_index else number
        call_id = "" if directives.no_ids else f"call_{number}"
        size = directives.split or len(arguments) or 1
        pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
        first: dict[str, Any] = {"index": index, "type": "function", "function": {"name": name, "arguments": ""}}
        if call_id:
            first["id"] = call_id
        yield first
        for piece in pieces:
            yield {"index": index, "function": {"arguments": piece}}


def whole_answer(model: str, text: str, calls: list[tuple[str, str]]) -> dict[str, Any]:
    """The answer of a server that does not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": len(text.split())}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage}


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"
