"""`memory_forget`: deletes one thing that was remembered for the same person."""

from typing import Any

from tools_app.storage import memories
from tools_app.types import Effect, Risk, Tool, ToolContext, ToolSpec


class MemoryForget(Tool):
    spec = ToolSpec(
        name="memory_forget",
        description="Delete what you remembered under a key. Look the key up with memory_recall first.",
        parameters={
            "type": "object",
            "properties": {
                "key": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": memories.MAX_KEY_CHARACTERS,
                    "description": "The key, exactly as memory_recall gives it.",
                }
            },
            "required": ["key"],
            "additionalProperties": False,
        },
        effect=Effect.KEYED,  # by its own key: what is gone stays gone
        risk=Risk.MEDIUM,
        timeout_seconds=10,
    )

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """{"key", "forgotten": whether there was something under this key}."""
        key = " ".join(arguments["key"].split())
        return {"key": key, "forgotten": memories.forget(memories.Holder(context.agent_id, context.actor), key)}
