"""Assembles tool calls from streamed fragments, whose ids and indexes may be missing, repeated or reused."""

import json
import secrets
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from agents_app.providers.text_repair import repair
from tools_app.types import ToolCall

MAX_ID_CHARACTERS = 128
MAX_NAME_CHARACTERS = 120
CUT_OFF = "{"
_NO_ARGUMENTS = "null"  # of models that call a tool without arguments


@dataclass
class _Draft:
    index: int | None
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: dict[str, Any] | None = None


class CallAssembly:
    """The tool calls under construction: `add` each entry of `delta.tool_calls` in order, then `finish`."""

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []

    def add(self, fragment: Any) -> int:
        """Add a fragment, or ignore it if it is invalid. Return its number of characters."""
        if not isinstance(fragment, dict):
            return 0
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        index = fragment.get("index") if isinstance(fragment.get("index"), int) else None
        call_id, name = _text(fragment.get("id")), _text(function.get("name"))
        given = function.get("arguments")  # text, but some servers send the object itself
        arguments = json.dumps(given) if isinstance(given, dict) else _text(given)
        draft = self._find(index, call_id, name) or self._begin(index, call_id)
        draft.id = draft.id or call_id
        extra = fragment.get("extra_content")
        draft.extra = extra if isinstance(extra, dict) else draft.extra
        if name != draft.name and len(draft.name) < MAX_NAME_CHARACTERS:
            draft.name += name
        draft.arguments.append(arguments)
        return len(name) + len(arguments)

    @property
    def count(self) -> int:
        return len(self._drafts)

    @property
    def extras(self) -> list[dict[str, Any] | None]:
        """The `extra_content` of each call, None for one without."""
        return [draft.extra for draft in self._drafts]

    def finish(self, *, is_cut: bool) -> tuple[ToolCall, ...]:
        """Return the calls with unique ids. is_cut: the model reached a limit, so the last call may be incomplete.

        An incomplete call keeps its invalid arguments, or gets CUT_OFF if it has none, so that it never looks like a
        complete call without arguments.
        """
        calls = []
        seen: set[str] = set()
        for position, draft in enumerate(self._drafts):
            arguments = "".join(draft.arguments)
            if is_cut and not arguments and position == len(self._drafts) - 1:
                arguments = CUT_OFF
            elif arguments.strip() == _NO_ARGUMENTS:
                arguments = "{}"
            call_id = _unique_id(draft, seen)
            seen.add(call_id)
            calls.append(ToolCall(call_id, repair(draft.name)[:MAX_NAME_CHARACTERS], repair(arguments)))
        return tuple(calls)

    def _begin(self, index: int | None, call_id: str) -> _Draft:
        draft = _Draft(index, call_id)
        self._drafts.append(draft)
        return draft

    def _find(self, index: int | None, call_id: str, name: str) -> _Draft | None:
        """Return the draft that a fragment continues, or None if it starts a new call."""
        draft = self._last_with(index, call_id)
        if draft is None or not name:
            return draft
        if call_id and draft.id and call_id != draft.id:
            return None
        if not call_id and _is_whole(draft.arguments):
            return None
        return draft

    def _last_with(self, index: int | None, call_id: str) -> _Draft | None:
        newest_first = self._drafts[::-1]
        same = [draft for draft in newest_first if call_id and (draft.id, draft.index) == (call_id, index)]
        if not same and not (index is None and call_id):
            same = [draft for draft in newest_first if index is None or draft.index == index]
        return same[0] if same else None


def _unique_id(draft: _Draft, taken: Container[str]) -> str:
    call_id = repair(draft.id)
    is_usable = call_id and call_id not in taken and len(call_id) <= MAX_ID_CHARACTERS
    return call_id if is_usable else f"call_{secrets.token_hex(12)}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_whole(arguments: list[str]) -> bool:
    if not arguments or not arguments[-1].rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads("".join(arguments)), dict)
    except (ValueError, RecursionError):
        return False
