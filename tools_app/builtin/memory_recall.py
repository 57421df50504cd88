"""`memory_recall`: finds memories of the same user."""

from typing import Any

from tools_app.parameters import integer, parameters, text
from tools_app.storage import memories
from tools_app.types import Effect, Reads, Risk, Tool, ToolContext, ToolSpec

_DEFAULT_LIMIT = 5
_MAX_LIMIT = 20
_QUOTE_CHARACTERS = 300


class MemoryRecall(Tool):
    spec = ToolSpec(
        name="memory_recall",
        description=("Look up what you remembered about this person in earlier conversations."),
        parameters=parameters(
            query=text("Words to look for; without them: the newest.", maxLength=500),
            limit=integer(f"Default {_DEFAULT_LIMIT}.", 1, _MAX_LIMIT),
        ),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=10,
        has_sources=True,
        reads=Reads.STORED,
        sends=(),
    )

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"memories": [{"key", "text", "updated_at"}], "total": of all memories, "sources", "origins"}."""
        holder = memories.Holder(context.agent_id, context.actor)
        found = memories.recall(holder, arguments.get("query", ""), limit=arguments.get("limit", _DEFAULT_LIMIT))
        return {
            "memories": [
                {"key": memory.key, "text": memory.text, "updated_at": memory.updated_at.isoformat(timespec="seconds")}
                for memory in found
            ],
            "total": memories.count(holder),
            "sources": [
                {"uri": f"memory:{memory.key}", "title": memory.key, "quote": memory.text[:_QUOTE_CHARACTERS]}
                for memory in found
            ],
            "origins": list(dict.fromkeys(origin for memory in found for origin in memory.origins)),
        }
