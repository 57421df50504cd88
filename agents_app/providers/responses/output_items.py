"""The items of a response under construction: messages, reasoning and function calls."""

from typing import Any

from agents_app.providers.dialect_state import state_of
from agents_app.providers.errors import Endpoint
from agents_app.providers.responses.input_items import DIALECT
from agents_app.providers.text_repair import StreamRepair
from agents_app.providers.tool_calls import CallAssembly
from agents_app.types import ReasoningDelta, TextDelta

Deltas = list[TextDelta | ReasoningDelta]

_SEPARATOR = "\n\n"  # between two messages, and between two parts of a reasoning
_REASONING_FIELDS = ("type", "id", "summary", "content", "encrypted_content")


class OutputItems:
    """The items by their index. Each is begun, gets pieces, and is ended with the whole item; any of these may lack."""

    def __init__(self) -> None:
        self.calls = CallAssembly()
        self.characters = 0
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._text_repair = StreamRepair()
        self._reasoning_repair = StreamRepair()
        self._last_text = self._last_part = (0, 0)  # places of the last piece of each
        self._streamed: set[int] = set()  # items of which a piece has come
        self._ended: dict[int, dict[str, Any]] = {}

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def is_empty(self) -> bool:
        return not (self._text or self._reasoning or self.calls.count)

    def begin(self, index: int, item: Any) -> None:
        """Take the head of an item: of a function call, its id and name."""
        if isinstance(item, dict) and item.get("type") == "function_call":
            self._add_call(index, {"name": item.get("name"), "arguments": ""}, item.get("call_id"))

    def add_text(self, index: int, piece: Any) -> Deltas:
        if not isinstance(piece, str) or not piece:
            return []
        self._streamed.add(index)
        text = self._text_repair.feed(_separated(piece, self._text, self._last_text, (index, 0)))
        self._last_text = index, 0
        self.characters += len(piece)
        return self._shown(text, "")

    def add_reasoning(self, index: int, part: int, piece: Any) -> Deltas:
        if not isinstance(piece, str) or not piece:
            return []
        self._streamed.add(index)
        text = self._reasoning_repair.feed(_separated(piece, self._reasoning, self._last_part, (index, part)))
        self._last_part = index, part
        self.characters += len(piece)
        return self._shown("", text)

    def add_arguments(self, index: int, piece: Any) -> None:
        if isinstance(piece, str):
            self._streamed.add(index)
            self._add_call(index, {"arguments": piece}, None)

    def end(self, index: int, item: Any) -> Deltas:
        """Take a whole item. Return the deltas of what has not been streamed."""
        if not isinstance(item, dict) or index in self._ended:
            return []
        self._ended[index] = item
        if item.get("type") == "function_call":
            arguments = "" if index in self._streamed else item.get("arguments")
            self._add_call(index, {"name": item.get("name"), "arguments": arguments}, item.get("call_id"))
        if index in self._streamed:
            return []
        if item.get("type") == "message":
            pieces = [part.get("text") or part.get("refusal") for part in _parts(item, "content")]
            return [delta for piece in pieces for delta in self.add_text(index, piece)]
        if item.get("type") == "reasoning":
            parts = _parts(item, "summary") or _parts(item, "content")
            texts = [part.get("text") for part in parts]
            return [delta for at, text in enumerate(texts) for delta in self.add_reasoning(index, at, text)]
        return []

    def finish(self) -> Deltas:
        return self._shown(self._text_repair.finish(), self._reasoning_repair.finish())

    def state(self, endpoint: Endpoint) -> dict[str, Any] | None:
        """Return what has to go back with the message: its reasoning, and the order of the items."""
        items: list[dict[str, Any]] = []
        for _, item in sorted(self._ended.items()):
            match item.get("type"):
                case "reasoning" if item.get("encrypted_content") or item.get("content"):
                    items.append({name: item[name] for name in _REASONING_FIELDS if item.get(name) is not None})
                case "message":
                    items.append({name: item[name] for name in ("type", "phase") if item.get(name)})
                case "function_call":
                    items.append({"type": "function_call"})
        while items and items[-1]["type"] == "reasoning":  # the server expects the item that it belongs to
            items.pop()
        needs_state = any(item["type"] == "reasoning" or "phase" in item for item in items)
        return state_of(DIALECT, endpoint, {"items": items}) if needs_state else None

    def _add_call(self, index: int, function: dict[str, Any], call_id: Any) -> None:
        self.characters += self.calls.add({"index": index, "id": call_id, "function": function})

    def _shown(self, text: str, reasoning: str) -> Deltas:
        deltas: Deltas = []
        if reasoning:
            self._reasoning.append(reasoning)
            deltas.append(ReasoningDelta(reasoning))
        if text:
            self._text.append(text)
            deltas.append(TextDelta(text))
        return deltas


def _separated(piece: str, earlier: list[str], last: tuple[int, int], place: tuple[int, int]) -> str:
    return f"{_SEPARATOR}{piece}" if earlier and last != place else piece


def _parts(item: dict[str, Any], name: str) -> list[dict[str, Any]]:
    parts = item.get(name)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
