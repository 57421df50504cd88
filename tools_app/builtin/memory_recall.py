"""`memory_recall`: finds memories of the same user."""

from typing import Any

from tools_app.parameters import integer, parameters, text
from tools_app.storage import memories, memory_holders
from tools_app.types import Effect, Reads, Risk, Tool, ToolContext, ToolSpec

_DEFAULT_LIMIT = 5
_MAX_LIMIT = 20
_QUOTE_CHARACTERS = 300
_SHOWN_CHARACTERS = 2_000  # of each, unless one is read by its key


class MemoryRecall(Tool):
    spec = ToolSpec(
        name="memory_recall",
        description="Look up what you remembered about this person.",
        parameters=parameters(query=text("", maxLength=500), limit=integer("", 1, _MAX_LIMIT), key=text("In full.")),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=10,
        has_sources=True,
        reads=Reads.STORED,
        sends=(),
    )

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"memories": [{"key", "text", "updated_at", "source"}], "total": of all, "sources", "origins"}.

        A memory from outside that nobody has approved has `is_trusted` false; a part of a text has `characters`.
        """
        holder = memory_holders.holder_of(context.agent_id, context.session_id, context.actor)
        most, found = _SHOWN_CHARACTERS, tuple[memories.Remembered, ...]()
        if key := " ".join(arguments.get("key", "").split()):
            memory = memories.read(holder, key)
            most, found = memories.MAX_TEXT_BYTES, (memory,) if memory else ()
        else:
            found = memories.recall(holder, arguments.get("query", ""), limit=arguments.get("limit", _DEFAULT_LIMIT))
        return {
            "memories": [_shown(memory, most) for memory in found],
            "total": memories.count(holder),
            "sources": [_source(memory) for memory in found],
            "origins": list(dict.fromkeys(origin for memory in found for origin in memory.origins)),
        }


def _source(memory: memories.Remembered) -> dict[str, str]:
    return {"uri": f"memory:{memory.key}", "title": memory.key, "quote": memory.text[:_QUOTE_CHARACTERS]}


def _shown(memory: memories.Remembered, most: int) -> dict[str, Any]:
    text_shown = memory.text[:most]
    shown: dict[str, Any] = {"key": memory.key, "text": text_shown}
    shown |= {"updated_at": memory.updated_at.isoformat(timespec="seconds"), "source": memory.source}
    if not memory.is_trusted:
        shown["is_trusted"] = False
    if len(text_shown) < len(memory.text):
        shown["characters"] = len(memory.text)
    return shown
