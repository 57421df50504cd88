"""The items that stand for a conversation that was compacted. Only this installation can read what is in one.

API reference, Responses, "Compact a response".
"""

from typing import Any
from uuid import UUID

from sessions_app.surfaces.base.function_tools import invalid_param
from tools_app.secrets import vault

TYPE = "compaction"
_HEAD = "Summary of the conversation so far:"


def item_of(run_id: UUID, summary: str) -> dict[str, Any]:
    """Return the item with the summary that a run has written."""
    return {"id": f"cmp_{run_id.hex}", "type": TYPE, "encrypted_content": vault.seal(summary)}


def text_of(sealed: Any) -> str:
    """Return the text for the model of an item's `encrypted_content`.

    Raises InvalidInput (invalid_encrypted_content).
    """
    try:
        return f"{_HEAD}\n\n{vault.unseal(str(sealed))}"
    except vault.SealError:
        message = "This installation has not written that encrypted_content. Compact the conversation again."
        raise invalid_param(message, "input", "invalid_encrypted_content") from None
