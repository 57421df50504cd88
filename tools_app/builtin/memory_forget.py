"""`memory_forget`: deletes one memory of the same user."""

from typing import Any

from tools_app.parameters import parameters, text
from tools_app.storage import memories, memory_holders
from tools_app.types import Effect, Reads, Risk, Tool, ToolContext, ToolSpec


class MemoryForget(Tool):
    spec = ToolSpec(
        name="memory_forget",
        description="Delete what you remembered under a key.",
        parameters=parameters("key", key=text("", minLength=1, maxLength=memories.MAX_KEY_CHARACTERS)),
        effect=Effect.KEYED,  # by its own key: deleting again changes nothing
        risk=Risk.MEDIUM,
        timeout_seconds=10,
        reads=Reads.NOTHING,
        sends=(),
    )

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"key", "forgotten": whether the key existed}."""
        key = " ".join(arguments["key"].split())
        holder = memory_holders.holder_of(context.agent_id, context.session_id, context.actor)
        return {"key": key, "forgotten": memories.forget(holder, key)}
