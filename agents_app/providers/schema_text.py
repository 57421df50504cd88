"""The instruction that replaces the schema of an answer for servers that do not take one."""

import json
from typing import Any

from agents_app.providers.text_repair import sendable


def schema_text(schema: dict[str, Any]) -> str:
    """Return the instruction to answer with JSON of this schema."""
    text = json.dumps(schema, ensure_ascii=False)
    return sendable(f"Answer only with JSON that matches this JSON Schema, without any other text:\n{text}")
