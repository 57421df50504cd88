"""JSON as it is sent. Pure."""

import json
from typing import Any


def as_json(value: Any) -> str:
    """Return a value as JSON, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
